"""A node in a running network of the reference client: `TENON_REFERENCE=PATH` names its binary (v2.7.0).

Masternodes of the recorded chain `local` make blocks from genesis on; the node follows their head.
"""

import contextlib
import gzip
import json
import subprocess
import time

import chains
import pytest
from conftest import NAMESPACES, NETWORK, wait_for
from reference_node import REFERENCE, Reference
from tenon_node import Node, folder, unpacked

pytestmark = pytest.mark.skipif(not REFERENCE, reason="TENON_REFERENCE names no binary of the reference client")


def masternodes():
    with gzip.open(chains.CHAINS / "local.keys.json.gz") as file:
        accounts = json.load(file)["accounts"]
    return [account for account in accounts if account["role"] == "genesis masternode"]


def start_masternode(stack, genesis, account):
    path = stack.enter_context(folder("reference-"))
    (path / "key").write_text(account["privateKey"].removeprefix("0x"))
    (path / "password").write_text("")
    importing = [REFERENCE, "account", "import", "--datadir", path, "--password", path / "password", path / "key"]
    subprocess.run(list(map(str, importing)), check=True, capture_output=True)
    mining = ["--mine", "--unlock", account["address"], "--password", path / "password"]
    mining += ["--miner-etherbase", account["address"], "--miner-gasprice", "1", "--nodiscover", "--bootnodes", ""]
    started = Reference(path, genesis, *mining)
    stack.callback(started.end)
    return started


def number(node):
    return int(node.call("eth_blockNumber"), 16)


def test_a_node_stays_at_the_head_of_a_running_network(tmp_path):
    with contextlib.ExitStack() as stack:
        genesis = unpacked(chains.genesis_file("local"), tmp_path / "genesis.json")
        nodes = [start_masternode(stack, genesis, account) for account in masternodes()]
        for one in nodes:
            for other in nodes:
                if one is not other:
                    one.call("admin_addPeer", other.enode())
        wait_for(lambda: number(nodes[0]), lambda height: height >= 5, seconds=90)

        flags = ["--genesis", genesis, *NETWORK, *NAMESPACES, "--p2p.static", nodes[0].enode()]
        follower = stack.enter_context(Node("run", *flags, datadir=tmp_path / "follower"))
        wait_for(lambda: number(follower), lambda height: height >= 5, seconds=60)
        # An epoch has 60 blocks: follows the head across one epoch switch, block by block.
        behind = []
        for height in range(number(nodes[0]) + 1, 66):
            wait_for(lambda: number(nodes[0]), lambda found: found >= height, seconds=60)
            wanted = nodes[0].call("eth_getBlockByNumber", hex(height), False)["hash"]
            found = wait_for(lambda: follower.call("eth_getBlockByNumber", hex(height), False), bool, seconds=5)
            behind.append(number(nodes[0]) - number(follower))
            assert found["hash"] == wanted
        assert max(behind) <= 1, behind


def running_with_own_key(stack, tmp_path):
    """Starts three masternodes of the reference and one of this node. Returns the nodes, the flags to start this node
    again, and its account."""
    genesis = unpacked(chains.genesis_file("local"), tmp_path / "genesis.json")
    *theirs, own = masternodes()
    nodes = [start_masternode(stack, genesis, account) for account in theirs]
    for one in nodes:
        for other in nodes:
            if one is not other:
                one.call("admin_addPeer", other.enode())
    key = tmp_path / "masternode-key"
    key.write_text(own["privateKey"])
    key.chmod(0o600)
    flags = ["--genesis", genesis, *NETWORK, *NAMESPACES, "--masternode.key", key]
    flags += ["--p2p.static", ",".join(node.enode() for node in nodes)]
    node = stack.enter_context(Node("run", *flags, datadir=tmp_path / "node"))
    # The key has no record: the node first listens, and the rounds that it leads fail.
    enabled = "voting with this masternode's key is enabled"
    wait_for(lambda: enabled in node.log_path.read_text(errors="replace"), bool, seconds=60)
    return nodes, node, flags, own["address"].lower()


def test_a_masternode_of_a_running_network_moves_its_key_to_this_node(tmp_path):
    with contextlib.ExitStack() as stack:
        nodes, node, _, own = running_with_own_key(stack, tmp_path)
        begun = number(node)
        # Long enough for one epoch switch: an epoch has 60 blocks.
        last = max(begun + 30, 66)
        wait_for(lambda: number(nodes[0]), lambda height: height >= last, seconds=180)

        blocks = [node.call("eth_getBlockByNumber", hex(height), True) for height in range(begun + 4, last)]
        for block in blocks:
            assert nodes[0].call("eth_getBlockByNumber", block["number"], False)["hash"] == block["hash"]
        makers = [block["miner"].lower() for block in blocks]
        assert makers.count(own) >= len(blocks) // 5, makers
        times = [int(block["timestamp"], 16) for block in blocks]
        assert max(later - earlier for earlier, later in zip(times, times[1:])) <= 2, "no round fails"
        # The node's signing transactions are in blocks.
        sent = [transaction for block in blocks for transaction in block["transactions"]]
        signed = [sent for sent in sent if sent["to"] == "0x0000000000000000000000000000000000000089"]
        assert own in [transaction["from"].lower() for transaction in signed]


def test_with_one_of_four_masternodes_down_this_nodes_votes_and_timeouts_are_needed_and_survive_a_kill(tmp_path):
    with contextlib.ExitStack() as stack:
        nodes, node, flags, own = running_with_own_key(stack, tmp_path)
        wait_for(lambda: number(nodes[0]), lambda height, begun=number(node): height >= begun + 4, seconds=60)
        nodes.pop().end()
        begun = number(nodes[0])
        # Three of four are a quorum: without this node's votes there is no block, and without its timeouts no next
        # round.
        wait_for(lambda: number(nodes[0]), lambda height: height >= begun + 8, seconds=120)

        node.kill()
        stopped = number(nodes[0])
        time.sleep(8)
        assert number(nodes[0]) <= stopped + 1, "two of four are no quorum"
        node = stack.enter_context(Node("run", *flags, datadir=tmp_path / "node"))
        wait_for(lambda: number(nodes[0]), lambda height: height >= stopped + 8, seconds=120)
        head = wait_for(lambda: node.call("eth_getBlockByNumber", hex(stopped + 8), False), bool)
        assert nodes[0].call("eth_getBlockByNumber", head["number"], False)["hash"] == head["hash"]
        recent = [nodes[0].call("eth_getBlockByNumber", hex(height), False) for height in range(begun, stopped + 8)]
        assert own in [block["miner"].lower() for block in recent]
        assert "SIGNING STOPPED" not in node.log_path.read_text(errors="replace")
