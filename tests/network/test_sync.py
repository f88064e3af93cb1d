"""Synchronisation of the real program with its peers: other nodes of the program, and scripted ones (docs/spec/p2p.md
16, 18, 19)."""

import contextlib
import threading
import time

import chains
import pytest
import rlp
from conftest import NAMESPACES, NETWORK, enode, heads, wait_for
from eth_account import Account
from peer import GET_BODIES, GET_HEADERS, HEADERS, keccak, number
from serving import NEW_BLOCK, NEW_BLOCK_HASHES, TRANSACTIONS, RecordedChain, Server
from tenon_node import Node

# Hostile peers use another address of the machine, so that the consequences do not affect honest ones.
HOSTILE = "127.0.0.2"
# An account of the recorded chain with a balance; its key is sha256("tenon-golden-0").
KEY = "0x0d9f6b8ea80e1a29df77e391f6ae636b80eed10ac47dddce3ccfdff99f92069f"


def head(node):
    return node.call("eth_getBlockByNumber", "latest", False)


def height(node):
    return int(node.call("eth_blockNumber"), 16)


@pytest.fixture(scope="session")
def recorded():
    """The recorded chain `local`, as served by a scripted peer."""
    return RecordedChain(chains.CHAINS / "local.rlp.gz")


@pytest.mark.parametrize("name", ["staged", "v1switch", "upgrade"])
def test_a_fresh_node_syncs_from_a_peer_and_continues_after_a_kill(name, tmp_path):
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(chains.prepared(name))
        flags = ["--genesis", path / "genesis.json", *NETWORK, *NAMESPACES]
        full = stack.enter_context(Node("run", *flags, datadir=path / "data"))
        best = head(full)
        static = ["--p2p.static", enode(full)]
        fresh = stack.enter_context(Node("run", *flags, *static, datadir=tmp_path / "fresh"))
        wait_for(lambda: height(fresh), lambda number: number > 100)
        fresh.kill()
        again = stack.enter_context(Node("run", *flags, *static, datadir=tmp_path / "fresh"))
        assert height(again) > 0
        wait_for(lambda: head(again)["hash"], lambda found: found == best["hash"], seconds=120)
        for block in (1, 7, int(best["number"], 16) // 2):
            block = [node.call("eth_getBlockByNumber", hex(block), True) for node in (full, again)]
            assert block[0] == block[1]
        assert heads(again) and heads(full), "no peer was disconnected"


def test_slow_silent_and_lying_peers_do_not_prevent_a_sync_from_the_others(start, recorded):
    node = start("fresh", with_blocks=False)
    best = recorded.hashes[-1].hex()
    is_over = threading.Event()

    class Slow(Server):
        def body_answer(self, hashes):
            time.sleep(0.1)
            return super().body_answer(hashes)

    class Liar(Server):
        def body_answer(self, hashes):
            return [[[], [recorded.headers[1]]] for _ in hashes]

        def header_answer(self, *question):
            answer = super().header_answer(*question)
            return [answer[0], *answer[:0:-1]]

    with contextlib.ExitStack() as stack:
        honest = [stack.enter_context(Slow(recorded, recorded.height, enode(node))) for _ in range(2)]
        liar = stack.enter_context(Liar(recorded, recorded.height, enode(node), source=HOSTILE))
        silent = stack.enter_context(Server(recorded, recorded.height, enode(node), source="127.0.0.3"))
        silent.connect()
        told = []
        threads = [threading.Thread(target=lambda: told.append(liar.connect() and liar.closed_with(60)))]
        serve = lambda peer: peer.connect().serve_until(is_over.is_set, 120)  # noqa: E731
        threads += [threading.Thread(target=serve, args=[peer]) for peer in honest]
        for thread in threads:
            thread.start()
        wait_for(lambda: head(node)["hash"][2:], lambda found: found == best, seconds=120)
        is_over.set()
        for thread in threads:
            thread.join()
    assert told and told[0] is not None, "the liar is cut"
    assert all(any(code == GET_BODIES for code, _ in peer.asked) for peer in honest), "both served"


def test_a_block_that_a_peer_sends_is_relayed_and_becomes_the_head(start, recorded):
    node = start("fresh", with_blocks=False)
    last = recorded.height
    with Server(recorded, last - 3, enode(node)) as sender, Server(recorded, last - 3, enode(node)) as hearer:
        sender.connect()
        assert sender.serve_until(lambda: height(node) == last - 3)
        hearer.connect()
        assert hearer.serve_until(lambda: hearer.asked), "the node knows it"
        sender.limit = hearer.limit = last
        # The second block is sent first; it waits for its parent.
        for block in (last - 1, last - 2):
            sender.send(NEW_BLOCK, recorded.new_block(block))
        sent = lambda: [rlp.decode(payload) for code, payload in hearer.got if code == NEW_BLOCK]  # noqa: E731
        assert hearer.serve_until(lambda: len(sent()) == 2)
        wait_for(lambda: height(node), lambda found: found == last - 1)
        heights = [int.from_bytes(block[0][8], "big") for block, _ in sent()]
        assert heights == [last - 2, last - 1]
        difficulties = [int.from_bytes(difficulty, "big") for _, difficulty in sent()]
        assert difficulties == recorded.difficulties[last - 2 : last]
        assert not [code for code, _ in sender.got if code == NEW_BLOCK], "a block is not sent back to its sender"

        announced = [[recorded.hashes[last], number(last)]]
        sender.send(NEW_BLOCK_HASHES, rlp.encode(announced))
        assert sender.serve_until(lambda: height(node) == last)
        asked = [(code, question) for code, question in sender.asked if recorded.hashes[last] in question]
        assert [code for code, _ in asked][:1] == [GET_HEADERS]
        assert head(node)["hash"][2:] == recorded.hashes[last].hex()


@contextlib.contextmanager
def one_block_behind(start, recorded):
    """A node without the newest block, and an honest and a hostile peer of it."""
    node = start("fresh", with_blocks=False)
    known = recorded.height - 1
    with Server(recorded, known, enode(node)) as honest, Server(recorded, known, enode(node), source=HOSTILE) as hostile:
        honest.connect()
        assert honest.serve_until(lambda: height(node) == known)
        hostile.connect()
        yield node, honest, hostile


def test_an_invalid_block_disconnects_its_sender_and_changes_nothing(start, recorded):
    last = recorded.height
    with one_block_behind(start, recorded) as (node, honest, hostile):
        block = rlp.decode(recorded.blocks[last])
        block[0][3] = keccak(b"another state root")
        hostile.send(NEW_BLOCK, rlp.encode([block, number(recorded.difficulties[last])]))
        assert hostile.closed_with() is not None
        assert height(node) == last - 1
        honest.limit = last
        honest.send(NEW_BLOCK, recorded.new_block(last))
        assert honest.serve_until(lambda: height(node) == last)
        wrong = keccak(rlp.encode(block[0])).hex()
        assert not [code for code, payload in honest.got if code == NEW_BLOCK and wrong in payload.hex()]


@pytest.mark.parametrize("part", [1, 2], ids=["transactions", "ommers"])
def test_a_header_with_a_foreign_body_is_dropped_and_does_not_condemn_its_block(part, start, recorded):
    last = recorded.height
    with one_block_behind(start, recorded) as (node, honest, hostile):
        block = rlp.decode(recorded.blocks[last])
        foreign = [rlp.decode(recorded.blocks[1])[0]] if part == 2 else next(body[0] for body in recorded.bodies if body[0])
        block[part] = foreign
        assert block != rlp.decode(recorded.blocks[last])
        hostile.send(NEW_BLOCK, rlp.encode([block, number(recorded.difficulties[last])]))
        # The node processes messages of a peer in order.
        hostile.send(GET_HEADERS, rlp.encode([number(1), number(1), b"", b""]))
        assert hostile.serve_until(lambda: any(code == HEADERS for code, _ in hostile.got))
        assert not [code for code, _ in honest.got if code == NEW_BLOCK]

        honest.limit = last
        honest.send(NEW_BLOCK, recorded.new_block(last))
        assert honest.serve_until(lambda: height(node) == last)
        assert len(heads(node)) == 2, "no peer was disconnected"


def test_transactions_are_relayed_once_the_node_is_synced(start, recorded):
    node = start("fresh", "--txpool.pricelimit", "0", with_blocks=False)
    last = recorded.height
    account = Account.from_key(KEY)

    def signed(nonce):
        price = 20 * 10**9
        fields = {"nonce": nonce, "gasPrice": price, "gas": 21_000, "to": account.address, "value": 1, "chainId": 5151}
        return bytes(account.sign_transaction(fields).raw_transaction)

    with Server(recorded, last - 1, enode(node)) as sender, Server(recorded, last - 1, enode(node)) as hearer:
        sender.connect()
        assert sender.serve_until(lambda: height(node) == last - 1)
        wait_for(lambda: node.call("eth_syncing"), lambda syncing: syncing is False)
        hearer.connect()
        assert hearer.serve_until(lambda: hearer.asked), "the node knows it"
        nonce = int(node.call("eth_getTransactionCount", account.address, "latest"), 16)
        first, second = signed(nonce), signed(nonce + 1)
        sender.send(TRANSACTIONS, rlp.encode([rlp.decode(first)]))
        told = lambda peer: [  # noqa: E731
            keccak(rlp.encode(item)) for code, payload in peer.got if code == TRANSACTIONS for item in rlp.decode(payload)
        ]
        assert hearer.serve_until(lambda: keccak(first) in told(hearer))
        assert node.call("eth_getTransactionByHash", "0x" + keccak(first).hex())["blockNumber"] is None
        # A transaction submitted over RPC is sent to all peers.
        node.call("eth_sendRawTransaction", "0x" + second.hex())
        assert sender.serve_until(lambda: keccak(second) in told(sender))
        assert hearer.serve_until(lambda: keccak(second) in told(hearer))
        assert keccak(first) not in told(sender)
        # A peer that connects later learns of the pending transactions.
        with Server(recorded, last - 1, enode(node)) as late:
            late.connect()
            assert late.serve_until(lambda: {keccak(first), keccak(second)} <= set(told(late)))
