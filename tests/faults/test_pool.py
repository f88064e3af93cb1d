"""The pool of the real program: free transactions over TCP do not displace paying ones, transactions of the operator
are local, and the journal survives a full disk."""

import json
import resource
import time

import pytest
import rlp
from eth_account import Account
from eth_utils import keccak

import wire
from tenon_node import Node, RpcError, folder

DEV_KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
DEV = Account.from_key(DEV_KEY).address
#: A key that the node does not have.
HONEST_KEY = "0x" + "77" * 32
HONEST = Account.from_key(HONEST_KEY).address
OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
CHAIN = 31337
GWEI = 10**9
#: More than fit into the pool.
FREE = 10_300
BATCH = 500

#: Order of the curve secp256k1, and the x coordinate of its generator.
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
GENERATOR = 0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798


def free_transaction(secret):
    """A transaction of price 0, signed with this key. The nonce of the signature is 1, which would reveal the key,
    and saves the curve multiplication, which takes ten milliseconds in Python."""
    fields = [0, 0, 21_000, bytes.fromhex(OTHER[2:]), 0, b""]
    digest = int.from_bytes(keccak(rlp.encode([*fields, CHAIN, 0, 0])), "big")
    s, parity = (digest + GENERATOR * secret) % ORDER, 0
    if s > ORDER // 2:
        s, parity = ORDER - s, 1
    return "0x" + rlp.encode([*fields, CHAIN * 2 + 35 + parity, GENERATOR, s]).hex()


def transfer(key, nonce, price=100 * GWEI, data="0x", gas=21_000):
    fields = {"to": OTHER, "value": 1, "gas": gas, "gasPrice": price, "chainId": CHAIN, "nonce": nonce, "data": data}
    signed = Account.sign_transaction(fields, key)
    return signed.raw_transaction.to_0x_hex(), signed.hash.to_0x_hex()


def submit_many(node, transactions):
    """The answers over HTTP, in batches."""
    answers = []
    for start in range(0, len(transactions), BATCH):
        calls = [
            {"jsonrpc": "2.0", "id": number, "method": "eth_sendRawTransaction", "params": [raw]}
            for number, raw in enumerate(transactions[start : start + BATCH])
        ]
        answers += json.loads(node.raw(json.dumps(calls)))
    return answers


def wait_for_receipt(node, identity):
    deadline = time.monotonic() + 120
    while (receipt := node.call("eth_getTransactionReceipt", identity)) is None:
        assert time.monotonic() < deadline, node.call("txpool_status")
        time.sleep(0.05)
    return receipt


def give_money(node, address):
    wait_for_receipt(node, node.call("eth_sendTransaction", {"from": DEV, "to": address, "value": hex(10**18)}))


@pytest.mark.parametrize("floor", [1, 0], ids=["refused", "taken"])
def test_free_transactions_displace_no_paying_one_even_after_a_restart(floor):
    arguments = ["dev", "--block-time", "1s", "--txpool.pricelimit", str(floor)]
    with folder() as path:
        with Node(*arguments, datadir=path / "data") as node:
            give_money(node, HONEST)
            answers = submit_many(node, [free_transaction(secret) for secret in range(1, FREE + 1)])
            taken = sum("result" in answer for answer in answers)
            assert taken == (0 if floor else 10_240)
            assert {answer["error"]["message"].split(":")[0] for answer in answers if "error" in answer} == {"transaction underpriced"}

            raw, identity = transfer(HONEST_KEY, 0)
            assert node.call("eth_sendRawTransaction", raw) == identity
            assert wait_for_receipt(node, identity)["status"] == "0x1"
            assert node.stop() == 0
        with Node(*arguments, datadir=path / "data") as node:
            assert node.call("txpool_status") == {"pending": "0x0", "queued": "0x0"}
            raw, identity = transfer(HONEST_KEY, 1)
            assert node.call("eth_sendRawTransaction", raw) == identity
            assert wait_for_receipt(node, identity)["status"] == "0x1"


def send_by(transport, node, raw):
    with transport(node) as connection:
        return wire.ask(connection, wire.request("eth_sendRawTransaction", raw))["result"]


def test_transactions_from_the_socket_or_the_nodes_own_accounts_are_local():
    """The journal contains only local transactions, so only they return after a restart."""
    sealed_never = ["dev", "--block-time", "1h"]
    keys = ["0x" + digits * 32 for digits in ("11", "22", "33")]
    with folder() as path:
        with Node("dev", datadir=path / "data") as node:
            for key in keys:
                give_money(node, Account.from_key(key).address)
            assert node.stop() == 0
        with Node(*sealed_never, datadir=path / "data") as node:
            for key, transport in zip(keys, wire.TRANSPORTS, strict=True):
                send_by(transport, node, transfer(key, 0)[0])
            for nonce in (3, 4):
                send_by(wire.Http, node, transfer(DEV_KEY, nonce)[0])
            assert node.call("txpool_status") == {"pending": "0x5", "queued": "0x0"}
            assert node.stop() == 0
        with Node(*sealed_never, datadir=path / "data") as node:
            senders = node.call("txpool_content")["pending"]
            # The third came over the Unix socket.
            wanted = {Account.from_key(keys[2]).address: ["0"], DEV: ["3", "4"]}
            assert {sender: sorted(entries) for sender, entries in senders.items()} == wanted


def limit_files(process, limit):
    """From now on the process cannot make a file longer than this; further writes are truncated, as on a full disk."""
    _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (limit, hard))


def test_a_record_truncated_by_a_full_disk_is_removed_and_no_other_is_lost():
    sealed_never = ["dev", "--block-time", "1h"]
    large = {"data": "0x" + "00" * 100_000, "gas": 2_000_000}
    with folder() as path:
        journal = path / "data" / "transactions.rlp"
        with Node(*sealed_never, datadir=path / "data") as node:
            transactions = [transfer(DEV_KEY, 0, **large), transfer(DEV_KEY, 1, **large), transfer(DEV_KEY, 2)]
            for number, (raw, identity) in enumerate(transactions):
                size = journal.stat().st_size
                torn = number == 1
                limit_files(node.process.pid, size + 50_000 if torn else resource.RLIM_INFINITY)
                assert node.call("eth_sendRawTransaction", raw) == identity
                assert (journal.stat().st_size == size) == torn, "nothing is left of what could not be written"
            assert "could not write a local transaction to the journal" in node.log_path.read_text()
            node.kill()
        with Node(*sealed_never, datadir=path / "data") as node:
            content = node.call("txpool_content")
            assert (list(content["pending"][DEV]), list(content["queued"][DEV])) == (["0"], ["2"])


def test_a_journal_of_a_release_without_checksums_is_read():
    records = []
    for nonce in range(3):
        raw = bytes.fromhex(transfer(DEV_KEY, nonce)[0][2:])
        records.append(len(raw).to_bytes(4, "big") + raw)
    with folder() as path:
        (path / "data").mkdir(mode=0o700)
        with Node("dev", "--block-time", "1h", datadir=path / "data") as node:
            assert node.stop() == 0
        # The second is torn; previously everything after it was lost.
        (path / "data" / "transactions.rlp").write_bytes(records[0] + records[1][:60] + records[2])
        for _ in range(2):
            with Node("dev", "--block-time", "1h", datadir=path / "data") as node:
                content = node.call("txpool_content")
                assert (list(content["pending"][DEV]), list(content["queued"][DEV])) == (["0"], ["2"])
                assert node.stop() == 0


def test_a_price_of_zero_is_refused_from_the_nodes_own_accounts_too():
    with Node("dev", "--block-time", "1h") as node:
        fields = {"from": DEV, "to": OTHER, "value": "0x1", "gas": "0x5208"}
        with pytest.raises(RpcError, match="transaction underpriced: gas tip cap 0, minimum needed 1"):
            node.call("eth_sendTransaction", {**fields, "maxFeePerGas": hex(100 * GWEI), "maxPriorityFeePerGas": "0x0"})
        node.call("eth_sendTransaction", fields)
