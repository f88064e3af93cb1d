"""web3.py against the development network: HTTP, WebSocket and the Unix socket."""

import asyncio
import json

import pytest
from web3 import AsyncWeb3, IPCProvider, Web3, WebSocketProvider
from web3.exceptions import ContractCustomError, ContractLogicError

from tenon_node import DATA, Node

KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
TOKEN = json.loads((DATA / "contracts" / "Token.json").read_text())


@pytest.fixture(scope="module")
def node():
    with Node("dev") as running:
        yield running
        assert running.stop() == 0


@pytest.fixture(scope="module")
def web3(node):
    return Web3(Web3.HTTPProvider(node.http_url))


def send(web3, transaction):
    account = web3.eth.account.from_key(KEY)
    filled = {"from": account.address, "nonce": web3.eth.get_transaction_count(account.address, "pending"), **transaction}
    signed = account.sign_transaction(filled)
    return web3.eth.wait_for_transaction_receipt(web3.eth.send_raw_transaction(signed.raw_transaction), poll_latency=0.05)


@pytest.fixture(scope="module")
def token(web3):
    factory = web3.eth.contract(abi=TOKEN["abi"], bytecode=TOKEN["bytecode"])
    sender = web3.eth.account.from_key(KEY).address
    nonce = web3.eth.get_transaction_count(sender)
    receipt = send(web3, factory.constructor(1000).build_transaction({"from": sender, "nonce": nonce}))
    assert receipt.status == 1
    return web3.eth.contract(receipt.contractAddress, abi=TOKEN["abi"])


def transfer(web3, token, value):
    sender = web3.eth.account.from_key(KEY).address
    nonce = web3.eth.get_transaction_count(sender)
    return send(web3, token.functions.transfer(OTHER, value).build_transaction({"from": sender, "nonce": nonce}))


def test_the_chain_is_read(web3):
    assert web3.is_connected() and web3.eth.chain_id == 31337
    assert web3.client_version.startswith("Tenon/v")
    assert web3.eth.get_block("earliest").number == 0
    assert web3.eth.fee_history(1, "latest", [50])["oldestBlock"] >= 0


def test_a_contract_is_sent_to_and_its_logs_are_read(web3, token):
    receipt = transfer(web3, token, 3)

    (event,) = token.events.Transfer().process_receipt(receipt)
    assert event.args.value == 3
    logs = token.events.Transfer().get_logs(from_block=0, argument_filters={"to": OTHER})
    assert logs[-1].transactionHash == receipt.transactionHash


def test_a_filter_is_polled(web3, token):
    watcher = token.events.Transfer.create_filter(from_block="latest")
    watcher.get_new_entries()

    receipt = transfer(web3, token, 4)

    assert [entry.transactionHash for entry in watcher.get_new_entries()] == [receipt.transactionHash]


def test_errors_of_a_contract_are_decoded(token):
    with pytest.raises(ContractLogicError, match="allowance exceeded"):
        token.functions.transferFrom(OTHER, OTHER, 1).call()
    with pytest.raises(ContractCustomError):
        token.functions.transfer(OTHER, 10**9).call({"from": OTHER})


def test_a_transaction_is_traced(web3, token):
    receipt = transfer(web3, token, 5)

    trace = web3.provider.make_request("debug_traceTransaction", ["0x" + receipt.transactionHash.hex(), {"tracer": "prestateTracer"}])

    assert token.address.lower() in trace["result"]


def test_the_unix_socket_serves_the_same_chain(node, web3):
    local = Web3(IPCProvider(node.ipc_path))
    assert local.eth.get_block("latest").hash == web3.eth.get_block("latest").hash


def test_new_heads_arrive_over_websocket(node, web3, token):
    async def first_head():
        async with AsyncWeb3(WebSocketProvider(node.ws_url)) as client:
            identifier = await client.eth.subscribe("newHeads")
            receipt = await asyncio.to_thread(transfer, web3, token, 6)
            async for message in client.socket.process_subscriptions():
                assert message["subscription"] == identifier
                return message["result"]["number"], receipt.blockNumber

    seen, mined = asyncio.run(asyncio.wait_for(first_head(), 30))
    assert seen == mined
