"""Clients of the signing service: web3.py, viem, a Tenon node, go-ethereum (by GETH=PATH), and hardware wallets behind it."""

import contextlib
import json
import os
import pathlib
import subprocess
import time

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data
from web3 import IPCProvider, Web3

from signing_service import OTHER, OWN, Refused, SigningService
from simulated_device import ADDRESS, MODELS, DebugLink, simulated
from tenon_node import Node, RpcError, folder

POLICY = """
version = 1

[[rules]]
name = "all"
outcome = "allow"
kinds = ["transaction", "message", "typed-data"]
clients = ["client", "web"]
accounts = "any"
chains = "any"
recipients = "any"
functions = "any"
domains = "any"
primary-types = "any"
prefixes = "any"

[[rules]]
name = "asked"
outcome = "ask"
kinds = ["message"]
clients = ["careful"]
accounts = "any"
prefixes = "any"
"""

SETTINGS = """
[clients.client]
socket = "client.sock"
[clients.careful]
socket = "careful.sock"
[clients.web]
token = "web.token"
[http]
address = "127.0.0.1:0"
[approvers.owner]
socket = "owner.sock"
"""

TO = "0x90F79bf6EB2c4f870365E785982E1f101E93b906"
MAIL = {
    "types": {
        "EIP712Domain": [{"name": "name", "type": "string"}, {"name": "chainId", "type": "uint256"}],
        "Mail": [{"name": "to", "type": "address"}, {"name": "contents", "type": "string"}],
    },
    "primaryType": "Mail",
    "domain": {"name": "Ether Mail", "chainId": 31337},
    "message": {"to": TO, "contents": "Hello, Bob!"},
}


@contextlib.contextmanager
def service_in(place, **changes):
    token = place / "web.token"
    token.write_text("fedcba9876543210fedcba9876543210")
    token.chmod(0o600)
    with SigningService(place, POLICY, SETTINGS, **changes) as service:
        yield service


@pytest.fixture(scope="module")
def service():
    with folder() as place, service_in(place) as service:
        yield service


def test_web3_signs_through_it(service):
    web3 = Web3(IPCProvider(service.urls["client client"]))
    assert web3.eth.accounts[0] == OWN
    transaction = {"from": OWN, "to": TO, "gas": 21000, "value": 5, "nonce": 0, "chainId": 50}
    for fees in ({"gasPrice": 7}, {"maxFeePerGas": 9, "maxPriorityFeePerGas": 1}):
        signed = web3.eth.sign_transaction(transaction | fees | {"nonce": len(fees)})
        assert Account.recover_transaction(signed["raw"]) == OWN
        assert signed["tx"]["hash"] == web3.keccak(signed["raw"])
    message = encode_defunct(b"hello")
    assert Account.recover_message(message, signature=web3.eth.sign(OWN, b"hello")) == OWN
    signature = web3.eth.sign_typed_data(OTHER, json.dumps(MAIL))
    assert Account.recover_message(encode_typed_data(full_message=MAIL), signature=signature) == OTHER


VIEM = """
import { createRequire } from "node:module";
const load = createRequire(process.env.TENON_NODE_MODULES + "/resolve-from-here.js");
const viem = load("viem");
const [url, token, account, to] = process.argv.slice(2);
const chain = viem.defineChain({ id: 50, name: "native", nativeCurrency: { name: "x", symbol: "x", decimals: 18 },
  rpcUrls: { default: { http: [url] } } });
const transport = viem.http(url, { fetchOptions: { headers: { Authorization: `Bearer ${token}` } } });
const wallet = viem.createWalletClient({ account, chain, transport });
const raw = (await wallet.request({ method: "eth_signTransaction", params: [{ from: account, to, gas: "0x5208",
  maxFeePerGas: "0x9", maxPriorityFeePerGas: "0x1", nonce: "0x7", chainId: "0x32", value: "0x1" }] })).raw;
const typed = JSON.parse(process.env.TYPED);
const signature = await wallet.signTypedData({ ...typed, account });
const isRight = await viem.verifyTypedData({ ...typed, address: account, signature });
console.log(JSON.stringify([await wallet.getAddresses(), await viem.recoverTransactionAddress({ serializedTransaction: raw }), isRight]));
"""


def test_viem_signs_through_it_over_http(service, tmp_path):
    script = tmp_path / "client.mjs"
    script.write_text(VIEM)
    token = (service.place / "web.token").read_text()
    modules = os.environ.get("TENON_NODE_MODULES", str(pathlib.Path(__file__).parents[1] / "node_modules"))
    environment = os.environ | {"TYPED": json.dumps(MAIL | {"domain": MAIL["domain"] | {"chainId": 50}}), "TENON_NODE_MODULES": modules}
    command = ["node", str(script), service.urls["http"], token, OTHER, TO]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    addresses, signer, is_right = json.loads(done.stdout)
    assert addresses[0] == OWN and signer == OTHER and is_right


def until(question, seconds=30):
    end = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return answer


@pytest.mark.parametrize("over", ["socket", "http"])
def test_a_node_signs_through_it_and_reports_when_it_is_gone(over):
    # An account for this client only: the node has no other key for it.
    account = Account.create()
    with folder() as place, service_in(place, keys={account.address: account.key.hex().removeprefix("0x")}) as service:
        url = {
            "socket": ["--signer", service.urls["client client"]],
            "http": ["--signer", service.urls["http"], "--signer.token", str(place / "web.token")],
        }[over]
        node = Node("dev", *url)
        try:
            assert account.address.lower() in node.call("eth_accounts")
            rich = node.call("eth_accounts")[0]
            node.call("eth_sendTransaction", {"from": rich, "to": account.address, "value": hex(10**18)})
            hash_ = node.call("eth_sendTransaction", {"from": account.address, "to": TO, "value": "0x5"})
            assert until(lambda: node.call("eth_getTransactionReceipt", hash_))["status"] == "0x1"
            assert Account.recover_message(encode_defunct(b"hello"), signature=node.call("eth_sign", account.address, "0x" + b"hello".hex())) == account.address
            signature = node.call("eth_signTypedData_v4", account.address, MAIL)
            assert Account.recover_message(encode_typed_data(full_message=MAIL), signature=signature) == account.address
            service.write_policy("version = 1\n")
            service.approver("owner", "policy_reload")
            with pytest.raises(RpcError, match="request denied: no rule allows it"):
                node.call("eth_sign", account.address, "0x00")

            service.kill()
            with pytest.raises(RpcError, match="can't be reached"):
                node.call("eth_sign", account.address, "0x00")
            assert account.address.lower() in node.call("eth_accounts")
            service.write_policy(POLICY)
            if over == "socket":
                # The path is the same again; over HTTP the system chooses another port.
                service.start()
                assert until(lambda: signs(node, account.address))
        finally:
            assert node.stop() == 0


def signs(node, address):
    with contextlib.suppress(RpcError):
        return node.call("eth_sign", address, "0x00")


@pytest.mark.parametrize("model", MODELS)
def test_a_hardware_wallet_signs_behind_it(model):
    with simulated(model) as address, folder() as place:
        with service_in(place, udp=[address]) as service:
            until(lambda: ADDRESS.lower() in service.call("client", "eth_accounts"), 60)
            signature = service.call("client", "eth_sign", ADDRESS, "0x" + b"hello".hex())
            assert Account.recover_message(encode_defunct(b"hello"), signature=signature) == ADDRESS
            transaction = {"from": ADDRESS, "to": TO, "gas": "0x5208", "gasPrice": "0x1", "value": "0x1", "nonce": "0x0"}
            signed = service.call("client", "eth_signTransaction", transaction | {"chainId": "0x32"})
            assert Account.recover_transaction(signed["raw"]) == ADDRESS
            # The device may have shown another transaction for the same nonce, but it is not signed.
            with pytest.raises(Refused, match="no rule allows it"):
                service.call("client", "eth_signTransaction", transaction | {"chainId": "0x32", "value": "0x2"})
            # A person first approves at the service, and then at the device.
            answer = service.in_background("careful", "eth_sign", ADDRESS, "0x" + b"hello".hex())
            waiting = service.waiting("owner")
            service.approver("owner", "approvals_approve", waiting["number"], waiting["hash"])
            assert answer()
            steps = [step["step"] for step in service.steps()]
        assert steps.count("signed") == 2 and steps.count("signed-transaction") == 1


def test_a_request_refused_at_the_device_is_not_signed():
    with simulated("t-later", "--approve", "asked") as address, folder() as place:
        with service_in(place, udp=[address]) as service, DebugLink(address) as debug:
            until(lambda: ADDRESS.lower() in service.call("client", "eth_accounts"), 60)
            answer = service.in_background("client", "eth_sign", ADDRESS, "0x00")
            with pytest.raises(Refused):
                # Repeated until the device asks for a button.
                until(lambda: debug.press(False) or time.sleep(0.2) or answered(answer), 30)
                answer()
            until(lambda: service.steps()[-1]["step"] == "failed")


def answered(answer):
    thread = answer.__closure__ and next(cell.cell_contents for cell in answer.__closure__ if hasattr(cell.cell_contents, "is_alive"))
    return not thread.is_alive()


@pytest.mark.skipif("GETH" not in os.environ, reason="GETH=PATH names go-ethereum")
def test_go_ethereum_signs_through_it(service):
    with folder() as place:
        socket = place / "geth.ipc"
        command = [os.environ["GETH"], "--sepolia", "--datadir", place / "data", "--ipcpath", socket, "--signer", service.urls["client client"]]
        command += ["--nodiscover", "--maxpeers", "0", "--port", "0", "--authrpc.port", "0"]
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                until(socket.exists, 60)
                web3 = Web3(IPCProvider(socket))
                assert OWN in web3.eth.accounts
                transaction = {"from": OWN, "to": TO, "gas": 21000, "value": 0, "nonce": 90, "gasPrice": 10**10, "chainId": 11155111}
                assert Account.recover_transaction(web3.eth.sign_transaction(transaction)["raw"]) == OWN
                assert web3.eth.sign(OWN, b"hello")
            finally:
                process.terminate()
