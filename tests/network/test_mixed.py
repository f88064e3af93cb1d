"""Networks of four masternodes, some of this node and some of the reference client (`TENON_REFERENCE=PATH`, v2.7.0),
over links that delay, hold back or close connections (docs/spec/consensus.md 5, 7).

TENON_MIXED_SECONDS is the duration of the faults in each network; TENON_SEED repeats the faults and their times.
"""

import collections
import contextlib
import os
import random
import time

import chains
import pytest
from conftest import wait_for
from links import Link
from reference_node import REFERENCE
from tenon_node import Node, unpacked
from test_live import number, start_masternode
from test_masternodes import NAMESPACES, finalized, key_file, last_makers, masternodes, signer_of

SECONDS = int(os.environ.get("TENON_MIXED_SECONDS", "25"))

needs_reference = pytest.mark.skipif(not REFERENCE, reason="TENON_REFERENCE names no binary of the reference client")


class Mixed:
    """Four masternodes, of which the first `own` are nodes of this program. Every pair has a link, over which the node
    with the lower index dials."""

    def __init__(self, stack, path, own):
        self.stack, self.path, self.own = stack, path, own
        self.accounts = masternodes()
        self.genesis = unpacked(chains.genesis_file("local"), path / "genesis.json")
        self.nodes, self.ids, self.ports = [None] * 4, [None] * 4, [None] * 4
        # A started node sets the target of its links.
        self.links = {(one, other): Link(None, delay=0.02) for other in range(4) for one in range(other)}
        for link in self.links.values():
            stack.callback(link.end)
        # Dialed nodes start first, because their identifiers are part of their addresses.
        for index in reversed(range(4)):
            self.start(index)

    def dialed_by(self, index):
        pairs = [(other, self.links[index, other]) for other in range(index + 1, 4)]
        return [f"enode://{self.ids[other]}@127.0.0.1:{link.port}" for other, link in pairs]

    def start(self, index):
        if index < self.own:
            self.start_own(index, self.path / f"node-{index}")
        else:
            self.start_reference(index)

    def start_own(self, index, datadir):
        key = self.path / f"key-{index}"
        if not key.exists():
            key_file(key, self.accounts[index])
        flags = ["--genesis", self.genesis, "--p2p", "--p2p.addr", "127.0.0.1", "--port", "0", "--nat", "none"]
        flags += [*NAMESPACES, "--masternode.key", key]
        dialed = self.dialed_by(index)
        flags += ["--p2p.static", ",".join(dialed)] if dialed else []
        self.nodes[index] = self.stack.enter_context(Node("run", *flags, datadir=datadir))
        enode = self.nodes[index].call("admin_nodeInfo")["enode"]
        identifier, address = enode.removeprefix("enode://").split("@")
        self.started(index, identifier, int(address.partition("?")[0].rpartition(":")[2]))

    def started(self, index, identifier, port):
        self.ids[index], self.ports[index] = identifier, port
        for (_, other), link in self.links.items():
            if other == index:
                link.target = port

    def start_reference(self, index):
        before = self.nodes[index]
        if before is None:
            node = start_masternode(self.stack, self.genesis, self.accounts[index])
        else:
            node = before.again()
            self.stack.callback(node.end)
        self.nodes[index] = node
        self.started(index, node.call("admin_nodeInfo")["id"], node.port)
        for enode in self.dialed_by(index):
            node.call("admin_addPeer", enode)

    def kill(self, index):
        node = self.nodes[index]
        if index < self.own:
            node.kill()
        else:
            node.process.kill()
            node.process.wait()

    def across(self, side):
        return [link for (one, other), link in self.links.items() if (one in side) != (other in side)]

    def check(self, committed):
        """Checks that all nodes get the block that node 0 has committed at this height. A node that was cut off may have
        another one there, which is not committed, until it has caught up."""
        hashes = [lambda node=node: (node.call("eth_getBlockByNumber", hex(committed), False) or {}).get("hash") for node in self.nodes]
        expected = hashes[0]()
        for found in hashes[1:]:
            wait_for(found, lambda block: block == expected, seconds=60)
        logs = [node.log_path.read_text(errors="replace") for node in self.nodes[: self.own]]
        assert not [log for log in logs if "SIGNING STOPPED" in log]

    def goes_on(self, watched, blocks=4):
        """Waits until further blocks are committed."""
        begun = finalized(watched)
        wait_for(lambda: finalized(watched), lambda height: height >= begun + blocks, seconds=120)
        return finalized(watched)


def disturb(network, chance):
    """Causes one fault, and ends it."""
    fault = chance.choice(["drop", "kill", "hold", "cut"])
    if fault == "drop":
        for link in network.links.values():
            link.drop()
    elif fault == "kill":
        # Node 0 is excluded because it is the one that is queried.
        index = chance.randrange(1, 4)
        network.kill(index)
        time.sleep(chance.uniform(0, 5))
        network.start(index)
    else:
        side = set(chance.sample(range(4), chance.choice([1, 2])))
        parted = network.across(side)
        for link in parted:
            link.hold() if fault == "hold" else link.cut()
        time.sleep(chance.uniform(1, 6))
        for link in parted:
            link.heal()


def missed_rounds(node, begun):
    """Rounds above the block `begun` in which the masternode whose turn it was made no block, counted by masternode."""
    missed, end = collections.Counter(), number(node)
    while end > begun:
        epoch = node.call("XDPoS_getMissedRoundsInEpochByBlockNum", hex(end))
        found = [one for one in epoch["MissedRounds"] or [] if one["CurrentBlockNum"] > begun]
        missed.update(one["Miner"].lower() for one in found)
        end = epoch["EpochBlockNumber"] - 1
    return missed


@pytest.mark.parametrize("own", [1, 2, 3, 4])
def test_a_network_of_both_clients_continues_after_faults(own, tmp_path):
    if own < 4 and not REFERENCE:
        pytest.skip("TENON_REFERENCE names no binary of the reference client")
    seed = int(os.environ.get("TENON_SEED", random.randrange(2**32)))
    print(f"TENON_SEED={seed}")
    chance = random.Random(seed)
    with contextlib.ExitStack() as stack:
        network = Mixed(stack, tmp_path, own)
        watched, signers = network.nodes[0], {signer_of(account) for account in network.accounts}
        wait_for(lambda: last_makers(watched, 8), lambda found: found == signers, seconds=180)
        begun, until = number(watched), time.monotonic() + SECONDS
        while time.monotonic() < until:
            disturb(network, chance)
            network.check(network.goes_on(watched))
        missed = missed_rounds(watched, begun)
        print(f"{number(watched) - begun} blocks, missed rounds by node: {[missed[signer_of(one)] for one in network.accounts]}")


@needs_reference
def test_this_node_misses_no_more_rounds_than_the_reference(tmp_path):
    with contextlib.ExitStack() as stack:
        network = Mixed(stack, tmp_path, 2)
        watched, signers = network.nodes[0], [signer_of(account) for account in network.accounts]
        wait_for(lambda: last_makers(watched, 8), lambda found: found == set(signers), seconds=180)
        begun = number(watched)
        time.sleep(SECONDS)
        network.check(network.goes_on(watched))
        missed, blocks = missed_rounds(watched, begun), number(watched) - begun
        own, others = (sum(missed[signer] for signer in part) for part in (signers[:2], signers[2:]))
        print(f"{blocks} blocks, missed rounds: {own} of this node, {others} of the reference")
        assert own <= others, missed


@needs_reference
def test_the_key_of_a_stopped_reference_node_continues_in_this_node(tmp_path):
    with contextlib.ExitStack() as stack:
        network = Mixed(stack, tmp_path, 1)
        watched, signers = network.nodes[0], {signer_of(account) for account in network.accounts}
        wait_for(lambda: last_makers(watched, 8), lambda found: found == signers, seconds=180)
        network.kill(1)
        network.goes_on(watched)
        network.start_own(1, tmp_path / "taken-over")
        network.own = 2
        # The dialing node identifies it by the identifier of the previous node.
        watched.call("admin_addPeer", f"enode://{network.ids[1]}@127.0.0.1:{network.links[0, 1].port}")
        wait_for(lambda: last_makers(watched, 8), lambda found: found == signers, seconds=180)
        network.check(network.goes_on(watched))
