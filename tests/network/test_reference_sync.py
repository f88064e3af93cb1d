"""Chains that go from this node to the reference client, and from it to another node, each with a kill in the middle:
`TENON_REFERENCE=PATH` names its binary (v2.7.0).

The chains are recorded ones of the reference, and a new one of 5,000 blocks with four masternodes.
"""

import contextlib
import subprocess

import pytest
from conftest import NAMESPACES, NETWORK, chains, enode, heads, run, wait_for
from reference_node import REFERENCE, Reference
from tenon_node import BINARY, Node, folder

pytestmark = pytest.mark.skipif(not REFERENCE, reason="TENON_REFERENCE names no binary of the reference client")

ALONE = ["--nodiscover", "--bootnodes", ""]
FRESH = ["--blocks", "5000", "--accounts", "1000", "--masternodes", "4", "--signatures", "3", "--genesis-file"]


@contextlib.contextmanager
def fresh():
    """A new chain, in the form of `chains.prepared`."""
    with folder() as path:
        command = [BINARY.parent / "tenon-bench-import", "mainnet", "make", "--folder", path, *FRESH]
        subprocess.run(command, check=True, capture_output=True, timeout=500)
        (path / "genesis-full.json").rename(path / "genesis.json")
        run("import", "--genesis", path / "genesis.json", "--datadir", path / "data", path / "chain.rlp")
        yield path


def started(path, datadir, *arguments):
    return Node("run", "--genesis", path / "genesis.json", *NETWORK, *NAMESPACES, *arguments, datadir=datadir)


def height(node):
    return int(node.call("eth_blockNumber"), 16)


def wait_for_head(node, best):
    wait_for(lambda: node.call("eth_getBlockByNumber", "latest", False)["hash"], lambda head: head == best, seconds=400)


@pytest.mark.parametrize("name", ["local", "staged", "v1switch", "load", "fresh"])
def test_a_chain_goes_to_the_reference_and_back_with_a_kill_each(name, tmp_path):
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(fresh() if name == "fresh" else chains.prepared(name))
        full = stack.enter_context(started(path, path / "data"))
        best, middle = full.call("eth_getBlockByNumber", "latest", False)["hash"], height(full) // 3

        # The reference calls itself over its Unix socket while it imports; the socket's path must be short.
        other = Reference(stack.enter_context(folder("reference-")), path / "genesis.json", *ALONE)
        # A later one has the same name.
        stack.callback(lambda: other.end())
        assert full.call("admin_addPeer", other.enode()) is True
        wait_for(lambda: height(other), lambda number: number >= middle, seconds=300)
        other.kill()
        other = other.again()
        # A short chain may have been complete before the kill.
        assert height(other) < height(full) or name != "fresh"
        assert full.call("admin_addPeer", other.enode()) is True
        wait_for_head(other, best)

        back = stack.enter_context(started(path, tmp_path / "back"))
        assert back.call("admin_addPeer", other.enode()) is True
        wait_for(lambda: height(back), lambda number: number >= middle, seconds=300)
        back.kill()
        again = stack.enter_context(started(path, tmp_path / "back"))
        assert height(again) < height(full) or name != "fresh"
        assert again.call("admin_addPeer", other.enode()) is True
        wait_for_head(again, best)
        [shown] = wait_for(lambda: heads(again), bool)
        assert shown["protocols"]["eth"]["head"] == best
