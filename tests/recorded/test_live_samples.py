"""Sample answers of an active masternode, compared by structure with those of a development network with one
masternode.

Samples on peers and voting rounds belong to nodes in a network of several and are left out. So are those on work:
`eth_getWork`, and the logs of a pending block, need a block under construction, which a development network has only
for an instant.
"""

import pytest

import comparison
from tenon_node import Node

ASKED = ("eth_mining", "eth_hashrate", "eth_coinbase", "eth_syncing", "eth_getBlockByNumber", "eth_feeHistory")
SAMPLES = [case for case in comparison.recorded("local/live-samples") if case.get("sample") == "masternode" and case["method"] in ASKED]


def test_all_sample_methods_are_covered():
    assert {case["method"] for case in SAMPLES} == set(ASKED)


@pytest.fixture(scope="module")
def masternode():
    with Node("dev", "--profile", "native", "--http.api", "eth,net,web3") as node:
        yield node


@pytest.mark.parametrize("case", SAMPLES, ids=[case["method"] for case in SAMPLES])
def test_a_masternodes_answers_have_the_recorded_structure(masternode, case):
    found = {"jsonrpc": "2.0", "result": masternode.call(case["method"], *case.get("params", []))}
    differences = list(comparison.compare(case["response"], found, [], "shape"))
    assert not differences, comparison.described("local/live-samples", case, differences)
