"""Masternodes that are killed while they vote never sign two different messages of a kind in a round
(docs/spec/consensus.md 5, 7).

TENON_KILLS sets the number of kills; TENON_SEED repeats their times and nodes.
"""

import contextlib
import os
import random
import threading
import time

import chains
import rlp
from conftest import NETWORK, enode, wait_for
from eth_keys import keys
from peer import GET_HEADERS, HEADERS, PING, PONG, Closed, Peer, keccak, number
from serving import NEW_BLOCK, NEW_BLOCK_HASHES
from tenon_node import Node, unpacked
from test_masternodes import NAMESPACES, key_file, masternodes
from test_masternodes import number as height_of

KILLS = int(os.environ.get("TENON_KILLS", "4"))
NETWORK_ID = 5151
VOTE, TIMEOUT, SYNC_INFO = 0xF0, 0xF1, 0xF2
# Blocks of an epoch of the chain `local`.
EPOCH = 60


class Observer:
    """Peers of all nodes that record every signature they receive."""

    def __init__(self, genesis):
        self.genesis, self.is_over = genesis, threading.Event()
        self.lock, self.heard, self.threads = threading.Lock(), set(), []

    def watch(self, node):
        self.threads.append(threading.Thread(target=self._watch, args=[node, enode(node)]))
        self.threads[-1].start()

    def _watch(self, node, url):
        """Listens until the node ends. Connects again when a connection fails: a node that is starting may refuse the first
        ones, and one whose other peers are down sends nothing."""
        while not self.is_over.is_set() and node.process.poll() is None:
            with contextlib.suppress(OSError, Closed), Peer(url, timeout=5) as peer:
                peer.handshake()
                peer.hello()
                peer.status(NETWORK_ID, self.genesis)
                self._listen(peer)
            time.sleep(0.1)

    def _listen(self, peer):
        """Records messages until the end, and then those that the node has sent before: its PONG follows them."""
        has_asked = False
        while True:
            if self.is_over.is_set() and not has_asked:
                peer.send(PING, b"\xc0")
                has_asked = True
            code, payload = peer.receive()
            if code == PONG:
                return
            if code == PING:
                peer.send(PONG, b"\xc0")
            elif code == NEW_BLOCK_HASHES:
                for block_hash, _ in rlp.decode(payload):
                    peer.send(GET_HEADERS, rlp.encode([block_hash, number(1), b"", b""]))
            elif code in (VOTE, TIMEOUT, SYNC_INFO, NEW_BLOCK, HEADERS):
                with self.lock:
                    self.heard.add((code, payload))

    def votes(self):
        """The votes that have arrived as messages of their own."""
        with self.lock:
            return {payload for code, payload in self.heard if code == VOTE}

    def end(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join(30)


class Signatures:
    """All signatures, by key, kind and round."""

    def __init__(self):
        self.signed, self.known, self.gaps = {}, set(), {}

    def add(self, kind, round_, digest, signature):
        if (digest, signature) in self.known:
            return
        self.known.add((digest, signature))
        signer = keys.Signature(signature).recover_public_key_from_msg_hash(digest).to_address()
        self.note(signer, kind, round_, digest)

    def note(self, signer, kind, round_, digest):
        self.signed.setdefault((signer, kind, int.from_bytes(round_, "big")), set()).add(digest)

    def signers(self, kind):
        """The signer of each signed round: once for each round."""
        return [signer for signer, of, _ in self.signed if of == kind]

    def twice(self):
        """What was signed twice. Two timeouts of a round are allowed if their gap numbers are one epoch apart: the gap number
        follows the head, which can reach another epoch in a round that lasts. A node that kept to its first one could halt
        the network, because timeouts with different gap numbers are not counted together (docs/spec/consensus.md 5.7)."""
        found = {what: digests for what, digests in self.signed.items() if len(digests) > 1}
        return {what: digests for what, digests in found.items() if what[1] != "timeout" or not self.are_of_two_epochs(digests)}

    def are_of_two_epochs(self, digests):
        gaps = sorted(self.gaps[digest] for digest in digests)
        return len(gaps) == 2 and gaps[1] - gaps[0] == EPOCH

    def add_vote(self, block, signature, gap):
        self.add("vote", block[1], keccak(rlp.encode([block, gap])), signature)

    def add_timeout(self, round_, signature, gap):
        digest = keccak(rlp.encode([round_, gap]))
        self.gaps[digest] = int.from_bytes(gap, "big")
        self.add("timeout", round_, digest, signature)

    def add_certificate(self, certificate):
        block, signatures, gap = certificate
        for signature in signatures:
            self.add_vote(block, signature, gap)

    def add_header(self, header):
        extra = header[12]
        if not extra or extra[0] != 2 or int.from_bytes(header[8], "big") == 0:
            return
        round_, certificate = rlp.decode(extra[1:])
        self.note("0x" + header[2].hex(), "block", round_, keccak(rlp.encode(header)))
        self.add_certificate(certificate)

    def add_message(self, code, payload):
        content = rlp.decode(payload, strict=False)
        if code == VOTE:
            self.add_vote(*content)
        elif code == TIMEOUT:
            self.add_timeout(*content)
        elif code == NEW_BLOCK:
            self.add_header(content[0][0])
        elif code == HEADERS:
            for header in content:
                self.add_header(header)
        else:
            certificate, (round_, signatures, gap) = content
            self.add_certificate(certificate)
            for signature in signatures:
                self.add_timeout(round_, signature, gap)


def signatures_of(messages):
    signatures = Signatures()
    for code, payload in messages:
        signatures.add_message(code, payload)
    return signatures


def headers_of(node):
    """All headers of the node's chain but the first."""
    raw = [node.call("debug_getRawHeader", hex(height)) for height in range(1, height_of(node) + 1)]
    return [rlp.decode(bytes.fromhex(header[2:])) for header in raw]


def test_a_masternode_that_is_killed_signs_nothing_twice(tmp_path):
    seed = int(os.environ.get("TENON_SEED", random.randrange(2**32)))
    print(f"TENON_SEED={seed} TENON_KILLS={KILLS}")
    chance = random.Random(seed)
    accounts = masternodes()
    signers = {account["address"].lower() for account in accounts}
    with contextlib.ExitStack() as stack:
        genesis = unpacked(chains.genesis_file("local"), tmp_path / "genesis.json")
        nodes = {}

        def start(index):
            key = tmp_path / f"key-{index}"
            if not key.exists():
                key_file(key, accounts[index])
            flags = ["--genesis", genesis, *NETWORK, *NAMESPACES, "--masternode.key", key]
            others = [enode(node) for other, node in nodes.items() if other != index]
            flags += ["--p2p.static", ",".join(others)] if others else []
            nodes[index] = stack.enter_context(Node("run", *flags, datadir=tmp_path / f"node-{index}"))
            observer.watch(nodes[index])

        observer = Observer(None)
        stack.callback(observer.end)
        with Node("run", "--genesis", genesis, *NETWORK, *NAMESPACES, datadir=tmp_path / "asked") as asked:
            observer.genesis = bytes.fromhex(asked.call("eth_getBlockByNumber", "0x0", False)["hash"][2:])
        for index in range(4):
            start(index)
        wait_for(lambda: height_of(nodes[0]), lambda height: height >= 6, seconds=90)
        for _ in range(KILLS):
            time.sleep(chance.uniform(0, 2.5))
            index = chance.randrange(4)
            nodes[index].kill()
            start(index)
        begun, earlier = max(height_of(node) for node in nodes.values()), observer.votes()
        wait_for(lambda: height_of(nodes[0]), lambda height: height >= begun + 5, seconds=120)
        voters = lambda: set(signatures_of((VOTE, vote) for vote in observer.votes() - earlier).signers("vote"))
        wait_for(voters, lambda found: found == signers, seconds=120)
        height = height_of(nodes[0])
        headers = [header for node in nodes.values() for header in headers_of(node)]
        logs = [(tmp_path / f"node-{index}.log").read_text(errors="replace") for index in nodes]
        observer.end()

    assert not [log for log in logs if "SIGNING STOPPED" in log], "no key is in two nodes"
    signatures = signatures_of(observer.heard)
    for header in headers:
        signatures.add_header(header)
    assert not signatures.twice()
    kinds = {kind: signatures.signers(kind) for kind in ("vote", "timeout", "block")}
    print({kind: len(found) for kind, found in kinds.items()}, "signed")
    assert set(kinds["vote"]) == set(kinds["block"]) == signers and set(kinds["timeout"]) <= signers
    assert len(kinds["vote"]) >= 3 * (height - 1), "each block but the first has the certificate of its parent: three votes"


def test_a_second_vote_of_a_round_is_found():
    key, signatures = keys.PrivateKey(b"\1" * 32), Signatures()
    for block_hash in (b"\2" * 32, b"\3" * 32):
        block = [block_hash, b"\5", b"\7"]
        vote = [block, key.sign_msg_hash(keccak(rlp.encode([block, b""]))).to_bytes(), b""]
        signatures.add_message(VOTE, rlp.encode(vote))
        signatures.add_message(VOTE, rlp.encode(vote))
    assert [len(digests) for digests in signatures.twice().values()] == [2]


def test_a_second_timeout_of_a_round_is_found_unless_it_is_of_the_next_epoch():
    def timeouts(*gaps):
        key, signatures = keys.PrivateKey(b"\1" * 32), Signatures()
        for gap in map(number, gaps):
            signature = key.sign_msg_hash(keccak(rlp.encode([b"\5", gap]))).to_bytes()
            signatures.add_message(TIMEOUT, rlp.encode([b"\5", signature, gap]))
        return len(signatures.twice())

    assert timeouts(90, 90) == timeouts(90, 150) == 0
    assert timeouts(90, 91) == timeouts(30, 90, 150) == timeouts(90, 210) == 1
