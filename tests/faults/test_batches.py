"""Batches that send a transaction and query its effects at once, over every transport: the order of the calls is
kept."""

import json
import time

import pytest
from eth_account import Account

import wire
from tenon_node import Node

KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
SENDER = Account.from_key(KEY).address
OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
BATCHES = 200
MAX_WAITING = 3
"""Seconds after which sending is answered without a block (docs/development-network.md), on a busy machine."""


def transfers(node, count):
    """Signed transfers with the sender's next nonces: nonce, hash and bytes of each."""
    chain, price = int(node.call("eth_chainId"), 16), 2 * int(node.call("eth_gasPrice"), 16)
    first = int(node.call("eth_getTransactionCount", SENDER, "pending"), 16)
    fields = {"to": OTHER, "value": 1, "gas": 21_000, "gasPrice": price, "chainId": chain}
    signed = ((nonce, Account.sign_transaction({**fields, "nonce": nonce}, KEY)) for nonce in range(first, first + count))
    return [(nonce, "0x" + each.hash.hex().removeprefix("0x"), "0x" + each.raw_transaction.hex().removeprefix("0x")) for nonce, each in signed]


def batch(connection, calls):
    """The results of the calls of a batch, each `(method, *parameters)`, whose answers must be in order."""
    messages = [json.loads(wire.request(method, *parameters, id=number)) for number, (method, *parameters) in enumerate(calls)]
    answers = wire.ask(connection, json.dumps(messages).encode())
    assert [answer["id"] for answer in answers] == list(range(len(calls)))
    assert not [answer for answer in answers if "error" in answer], answers
    return [answer["result"] for answer in answers]


def asked_about(sent):
    """A transaction is sent between queries of the sender's nonce and queries of its effects."""
    _, identity, raw = sent
    count = ("eth_getTransactionCount", SENDER, "pending")
    return [count, ("eth_sendRawTransaction", raw), count, ("eth_getTransactionReceipt", identity), ("eth_getTransactionByHash", identity)]


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
@pytest.mark.parametrize("profile", ["ethereum", "native"])
def test_a_batch_finds_its_own_transaction_in_a_block(profile, transport):
    with Node("dev", "--profile", profile) as node, transport(node) as connection:
        for sent in transfers(node, BATCHES):
            nonce, identity, _ = sent
            begun = time.monotonic()
            before, answer, after, receipt, _ = batch(connection, asked_about(sent))
            has_given_up = time.monotonic() - begun >= MAX_WAITING

            assert (int(before, 16), answer, int(after, 16)) == (nonce, identity, nonce + 1)
            assert receipt["status"] == "0x1" if receipt else has_given_up, identity


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
def test_a_batch_finds_its_own_transaction_in_the_pool(transport):
    with Node("dev", "--block-time", "1h") as node, transport(node) as connection:
        sends = transfers(node, BATCHES)
        for sent in sends[:50]:
            nonce, identity, _ = sent
            before, answer, after, receipt, transaction = batch(connection, asked_about(sent))

            assert (int(before, 16), answer, int(after, 16)) == (nonce, identity, nonce + 1)
            assert receipt is None and transaction["hash"] == identity
        many = batch(connection, [call for sent in sends[50:] for call in asked_about(sent)])
        assert [int(count, 16) for count in many[2::5]] == [nonce + 1 for nonce, _, _ in sends[50:]]


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
@pytest.mark.parametrize("profile", ["ethereum", "native"])
def test_a_batch_of_sends_is_answered_like_single_sends(profile, transport):
    """The senders of a batch are recovered together: each answer belongs to its own transaction."""
    wrong = ["0x", "0xzz", None, 7, "0x02c0", []]
    answers = []
    for together in (True, False):
        with Node("dev", "--profile", profile, "--block-time", "1h") as node, transport(node) as connection:
            raws = [raw for _, _, raw in transfers(node, 150)]
            # Repeated ones, another order, an invalid signature, and bytes that are not a transaction.
            raws += [raws[3], raws[10][:-64] + "00" * 32] + wrong + raws[140:130:-1]
            calls = [json.loads(wire.request("eth_sendRawTransaction", raw, id=number)) for number, raw in enumerate(raws)]
            calls.insert(20, json.loads(wire.request("eth_sendRawTransaction", id="nothing")))
            calls.insert(90, json.loads(wire.request("eth_blockNumber", id="a read")))
            if together:
                answers.append(wire.ask(connection, json.dumps(calls).encode()))
            else:
                answers.append([wire.ask(connection, json.dumps(call).encode()) for call in calls])
            count = ("eth_getTransactionCount", SENDER, "pending")
            assert int(batch(connection, [count])[0], 16) == 150
            hidden = wire.ask(connection, wire.request("eth_sendRawTransactionAhead", [[raws[0]]], id=1))
            assert hidden["error"]["code"] == -32601
            names = json.dumps(wire.ask(connection, wire.request("rpc_discover", id=2)))
            assert "eth_sendRawTransaction" in names and "Ahead" not in names
    assert answers[0] == answers[1]


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
def test_a_filter_in_a_batch_returns_each_change_once(transport):
    with Node("dev") as node, transport(node) as connection:
        new = batch(connection, [("eth_newBlockFilter",)])[0]
        for sent in transfers(node, 20):
            _, _, raw = sent
            send, poll = ("eth_sendRawTransaction", raw), ("eth_getFilterChanges", new)
            begun = time.monotonic()
            nothing, _, one, again = batch(connection, [poll, send, poll, poll])
            has_given_up = time.monotonic() - begun >= MAX_WAITING
            while has_given_up and not one + again:
                one = batch(connection, [poll])[0]

            assert (nothing, again, len(one)) == ([], [], 1) or has_given_up and (nothing, len(one + again)) == ([], 1)
