"""Floods of forged votes, timeouts and certificates for blocks and rounds near and far: the network of masternodes
continues, and an honest peer is served (docs/spec/p2p.md 16.4, 17)."""

import contextlib
import os
import threading
import time

import chains
import rlp
from conftest import NETWORK, enode, wait_for
from figures import tell
from peer import Closed, Peer, number
from tenon_node import Node, unpacked
from test_kill_voting import NETWORK_ID, SYNC_INFO, TIMEOUT, VOTE
from test_masternodes import NAMESPACES, finalized, key_file, last_makers, masternodes, signer_of
from test_masternodes import number as height_of

SECONDS = 15


def signature():
    """A signature by no known key; some public key can be recovered from most of them."""
    return os.urandom(31) + b"\1" + b"\1" + os.urandom(31) + b"\1"


class Flood:
    """A peer that sends forged messages until it is stopped. It reconnects when it is disconnected."""

    def __init__(self, node, genesis, head):
        self.url, self.genesis, self.head = enode(node), genesis, head
        self.sent, self.cuts, self.is_over = 0, 0, threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while not self.is_over.is_set():
            with contextlib.suppress(OSError, Closed), Peer(self.url, source="127.0.0.3", timeout=5) as peer:
                peer.handshake()
                peer.hello()
                peer.status(NETWORK_ID, self.genesis)
                threading.Thread(target=self._drain, args=[peer], daemon=True).start()
                while not self.is_over.is_set():
                    self._send(peer)
            self.cuts += 1
            time.sleep(0.2)

    def _drain(self, peer):
        """Reads the node's messages, so that the node never waits for this peer."""
        with contextlib.suppress(OSError, Closed, AssertionError, ValueError):
            while True:
                peer.receive()

    def _send(self, peer):
        height = self.head()
        same = rlp.encode([[bytes(32), number(height + 1), number(height + 1)], bytes(65), b""])
        for ahead in (0, 1, 2, 15, 1_000_000):
            block = [os.urandom(32), number(height + ahead), number(height + ahead)]
            votes = [signature() for _ in range(4)]
            for code, payload in [
                (VOTE, rlp.encode([block, votes[0], b""])),
                (VOTE, same),
                (VOTE, rlp.encode([block, votes[1], number(2**63)])),
                (TIMEOUT, rlp.encode([number(height + ahead), votes[2], b""])),
                (SYNC_INFO, rlp.encode([[block, votes, b""], [number(height + ahead), votes, b""]])),
            ]:
                peer.send(code, payload)
                self.sent += 1

    def end(self):
        self.is_over.set()
        self.thread.join(30)


def test_forged_votes_timeouts_and_certificates_do_not_stop_the_network(tmp_path):
    accounts = masternodes()
    with contextlib.ExitStack() as stack:
        genesis = unpacked(chains.genesis_file("local"), tmp_path / "genesis.json")
        nodes, known = [], []
        for index, account in enumerate(accounts):
            flags = ["--genesis", genesis, *NETWORK, *NAMESPACES, "--masternode.key", key_file(tmp_path / f"key-{index}", account)]
            flags += ["--p2p.static", ",".join(known)] if known else []
            nodes.append(stack.enter_context(Node("run", *flags, datadir=tmp_path / f"node-{index}")))
            known.append(enode(nodes[-1]))
        signers = {signer_of(account) for account in accounts}
        wait_for(lambda: last_makers(nodes[0], 8), lambda found: found == signers, seconds=120)
        first = bytes.fromhex(nodes[0].call("eth_getBlockByNumber", "0x0", False)["hash"][2:])
        begun, quiet_from = height_of(nodes[0]), time.monotonic()
        wait_for(lambda: height_of(nodes[0]), lambda height: height >= begun + 8, seconds=120)
        quiet = 8 / (time.monotonic() - quiet_from)

        heights = {"now": height_of(nodes[0])}
        floods = [Flood(nodes[index], first, lambda: heights["now"]) for index in (0, 1)]
        for flood in floods:
            stack.callback(flood.end)
        honest = stack.enter_context(Peer(enode(nodes[0])))
        honest.handshake()
        honest.hello()
        honest.status(NETWORK_ID, first)
        begun, from_, waits = height_of(nodes[0]), time.monotonic(), []
        while time.monotonic() < from_ + SECONDS:
            asked = time.monotonic()
            assert len(honest.headers(0, 3)) == 3
            waits.append(time.monotonic() - asked)
            heights["now"] = height_of(nodes[0])
            time.sleep(0.1)
        wait_for(lambda: height_of(nodes[0]), lambda height: height >= begun + 8, seconds=120)
        flooded = 8 / max(8.0, time.monotonic() - from_) if heights["now"] < begun + 8 else (heights["now"] - begun) / SECONDS
        for flood in floods:
            flood.end()
        sent, cuts = sum(flood.sent for flood in floods), sum(flood.cuts for flood in floods)
        committed = finalized(nodes[0])
        wait_for(lambda: finalized(nodes[0]), lambda height: height > committed, seconds=60)
        logs = [node.log_path.read_text(errors="replace") for node in nodes]
        assert not [log for log in logs if "SIGNING STOPPED" in log or "panicked" in log]
    assert sent > 200
    median = sorted(waits)[len(waits) // 2]
    figure = f"{flooded:.2f} blocks/s, quiet {quiet:.2f}; honest peer's headers after {1000 * median:.0f} ms; cut {cuts} times"
    assert tell("clients", "forged votes, timeouts, certificates", sent, figure, "half of quiet", in_time=flooded > quiet / 2)
