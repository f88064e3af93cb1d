"""Answers of a masternode at work, by their shapes: what a development network of one masternode answers to the same.

Samples about peers and voting rounds belong to nodes in a network of several and are not asked. Nor are those about work:
`eth_getWork`, and the logs of a pending block, want a block under construction, which a development network has for an
instant at a time.
"""

import pytest

import comparison
from tenon_node import Node

ASKED = ("eth_mining", "eth_hashrate", "eth_coinbase", "eth_syncing", "eth_getBlockByNumber", "eth_feeHistory")
SAMPLES = [case for case in comparison.recorded("local/live-samples") if case.get("sample") == "masternode" and case["method"] in ASKED]


def test_all_of_them_are_there():
    assert {case["method"] for case in SAMPLES} == set(ASKED)


@pytest.fixture(scope="module")
def masternode():
    with Node("dev", "--profile", "native", "--http.api", "eth,net,web3") as node:
        yield node


@pytest.mark.parametrize("case", SAMPLES, ids=[case["method"] for case in SAMPLES])
def test_a_masternode_answers_in_the_recorded_shape(masternode, case):
    found = {"jsonrpc": "2.0", "result": masternode.call(case["method"], *case.get("params", []))}
    differences = list(comparison.compare(case["response"], found, [], "shape"))
    assert not differences, comparison.described("local/live-samples", case, differences)
