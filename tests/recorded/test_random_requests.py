"""Random requests about a recorded chain, sent to this node and to the reference client (`TENON_REFERENCE=PATH`,
v2.7.0). Each difference is listed in `differences.toml`, with those of the recorded answers, or in
`random_differences.toml`."""

import collections
import fnmatch
import json
import os
import pathlib
import random
import sys
import tomllib

import pytest

import chains
import comparison
from random_requests import RandomRequests
from reference_node import REFERENCE, Reference, wait_for
from tenon_node import folder

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "faults"))

pytestmark = pytest.mark.skipif(not REFERENCE, reason="TENON_REFERENCE names no binary of the reference client")

COUNT = int(os.environ.get("TENON_RANDOM", 3_000))
SEED = int(os.environ.get("TENON_SEED", random.randrange(1 << 32)))
NAMESPACES = "admin,debug,eth,miner,net,personal,txpool,web3,XDPoS"
LISTED = pathlib.Path(__file__).with_name("random_differences.toml")
#: Methods that change or stop a node, whose results are specific to a node, or that the reference does not serve.
NOT_COMPARED = (
    "admin_*", "miner_*", "personal_*", "rpc_*", "net_peerCount", "web3_clientVersion",
    "debug_set*", "debug_start*", "debug_stop*", "debug_write*", "debug_verbosity", "debug_vmodule", "debug_backtraceAt",
    "debug_*Profile*", "debug_goTrace", "debug_memStats", "debug_gcStats", "debug_stacks", "debug_freeOSMemory",
    "debug_chaindb*", "debug_db*", "debug_printBlock", "debug_standard*", "debug_traceBlockFromFile", "debug_traceBadBlock",
    "debug_getBadBlocks",
    "eth_new*", "*_subscribe", "*_unsubscribe", "eth_sign*", "eth_sendTransaction", "eth_fillTransaction",
    # Their lists have no order, or they need data that the reference stores outside the chain.
    "eth_createAccessList", "eth_getReward*", "*ROI*",
    "Consensus_*",
)


class Explanations:
    """The differences that have a listed reason."""

    def __init__(self):
        listed = comparison.Listed().differences + tomllib.loads(LISTED.read_text())["difference"]
        self.entries, self.counts = listed, collections.Counter()

    def has(self, case, difference):
        texts = {
            "method": comparison.kind_of_case(case),
            "path": difference.path,
            "request": json.dumps(case["params"]),
            "expected": json.dumps(difference.expected),
            "found": json.dumps(difference.found),
        }
        for entry in self.entries:
            if all(fnmatch.fnmatchcase(text, entry.get(name, "*")) for name, text in texts.items()):
                self.counts[entry["reason"]] += 1
                return True
        return False


def synchronised(node, path, genesis):
    """A reference node with the chain of this node, restarted like the nodes whose answers were recorded."""
    first = Reference(path, genesis, "--store-reward", "--nodiscover", "--bootnodes", "")
    try:
        head = node.call("eth_getBlockByNumber", "latest", False)["hash"]
        assert node.call("admin_addPeer", first.enode()) is True
        wait_for(first.head, lambda found: found == head, seconds=300)
    finally:
        first.end()
    return Reference(path, genesis, "--store-reward", "--nodiscover", "--bootnodes", "", "--maxpeers", "0", namespaces=NAMESPACES)


def outcome(text):
    """An answer without its id and protocol version."""
    answer = json.loads(text)
    answer.pop("id", None)
    answer.pop("jsonrpc", None)
    return answer


def test_random_requests_have_the_references_answers():
    import test_spoiled_requests

    print(f"TENON_SEED={SEED}")
    rules, explained, failures, equal = comparison.Rules(), Explanations(), [], 0
    with chains.prepared("local") as path, folder("reference-") as other:
        with chains.node_with(path, "--p2p", "--p2p.addr", "127.0.0.1", "--port", "0", "--nat", "none") as node:
            reference = synchronised(node, other, path / "genesis.json")
        try:
            with chains.node_with(path) as node:
                document = node.call("rpc_discover")
                known = [method for method in document["methods"] if not any(fnmatch.fnmatchcase(method["name"], name) for name in NOT_COMPARED)]
                requests = RandomRequests(node.call, {"methods": known}, SEED, test_spoiled_requests.requests)
                for number, (method, params) in zip(range(COUNT), requests):
                    text = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                    expected, found = outcome(reference.raw(text)), outcome(node.raw(text))
                    case = {"id": number, "method": method, "params": params, "response": expected}
                    if comparison.outcome(expected) == -32601 or rules.skips(case) or "handler crashed" in json.dumps(expected):
                        continue
                    differences = rules.differences(case, found)
                    unexplained = [difference for difference in differences if not explained.has(case, difference)]
                    if unexplained:
                        failures.append((case, unexplained))
                    equal += not differences
        finally:
            reference.end()
    print(f"{equal} equal; explained: {json.dumps(explained.counts, indent=1)}")
    if report := os.environ.get("TENON_RANDOM_REPORT"):
        pathlib.Path(report).write_text(json.dumps([[case, differences] for case, differences in failures], indent=1))
    assert not failures, "\n".join(comparison.described("random", case, differences) for case, differences in failures[:20])
