"""The network of the real program with the reference client: `TENON_REFERENCE=PATH` names its binary (v2.7.0).

The reference client runs a private chain, and knows only the nodes of the test.
"""

import contextlib
import time

import pytest
from conftest import enode, heads, wait_for
from reference_node import REFERENCE, Reference
from tenon_node import folder

pytestmark = pytest.mark.skipif(not REFERENCE, reason="TENON_REFERENCE names no binary of the reference client")


@pytest.fixture
def reference(chain):
    with contextlib.ExitStack() as stack:

        def begin(*arguments):
            # The reference calls itself over its Unix socket while it imports; the socket's path must be short.
            path = stack.enter_context(folder("reference-"))
            started = Reference(path, chain / "genesis.json", *arguments)
            stack.callback(started.end)
            return started

        yield begin


def test_the_reference_and_this_node_connect(start, reference):
    full, other = start("full"), reference("--nodiscover", "--bootnodes", "")
    best = full.call("eth_getBlockByNumber", "latest", False)

    assert full.call("admin_addPeer", other.enode()) is True

    [seen] = wait_for(lambda: heads(full), bool)
    assert seen["name"].startswith("XDC/v2.7.0") and seen["protocols"]["eth"]["version"] == 100
    met = wait_for(lambda: other.call("admin_peers"), lambda peers: peers and isinstance(peers[0]["protocols"]["eth"], dict))
    assert met[0]["protocols"]["eth"] == {"version": 100, "difficulty": int(best["totalDifficulty"], 16), "head": best["hash"]}
    assert met[0]["name"].startswith("Tenon/")


def test_both_clients_find_each_other_by_discovery_alone(start, reference):
    other = reference("--bootnodes", "", "--maxpeers", "20")
    node = start("one", "--bootnodes", other.enode(), with_blocks=False)
    identifier = enode(node).removeprefix("enode://").split("@")[0]

    wait_for(lambda: [peer["id"] for peer in other.call("admin_peers")], lambda ids: identifier in ids, seconds=120)
    [seen] = wait_for(lambda: heads(node), bool)
    assert not seen["network"]["static"]


def test_the_connection_with_the_reference_lasts(start, reference):
    node, other = start("one", with_blocks=False), reference("--nodiscover", "--bootnodes", "")
    other.call("admin_addPeer", f"{enode(node)}")
    wait_for(lambda: heads(node), bool)
    # Longer than two Ping intervals and than the idle limit after which a connection is closed.
    time.sleep(65)
    assert heads(node) and other.call("net_peerCount") == "0x1"
