"""Accounts of hardware wallets in the node: simulated devices over UDP, used through JSON-RPC."""

import contextlib
import http.client
import json
import threading
import time

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data

from simulated_device import ADDRESS, HIDDEN, MODELS, DebugLink, simulated
from tenon_node import Node, RpcError, run
from test_accounts import Socket, refused
from test_device import HELLO, MAIL, TO

PATH = "m/44'/60'/0'/0/0"
LATER = ["one-later", "t-later"]


def node_with(address, *arguments):
    return Node("dev", "--device.enabled", "--device.udp", address, *arguments)


def until(question, wanted=lambda answer: answer, seconds=60):
    """Polls until the answer is the expected one."""
    end = time.monotonic() + seconds
    while not wanted(answer := question()):
        assert time.monotonic() < end, answer
        time.sleep(0.02)
    return answer


def status(ask, url):
    return next((wallet["status"] for wallet in ask("personal_listWallets") if wallet["url"] == url), None)


def online(ask, address):
    """Waits until the device is open and its first account is derived; returns the wallet's URL."""
    url = f"trezor://udp:{address}"
    until(lambda: status(ask, url), lambda text: text and text.endswith("online"))
    assert ask("personal_deriveAccount", url, PATH, True)["address"] == ADDRESS.lower()
    return url


def legacy(data="0x", **members):
    return {"from": ADDRESS, "nonce": "0x0", "gas": "0x14", "gasPrice": "0x14", "to": TO, "value": "0xa", "data": data, **members}


@pytest.mark.parametrize("model", MODELS)
def test_every_model_signs_by_rpc(model):
    vectors = {
        1: (37, "b18ae293158a203135802d101c2ffe69d435bf51020cc432e9663ca5881749e8"),
        50: (136, "9d74b5d455a58b05cb41da6cb482e1d9e4356b97a68c3c54d99c556e4ab2d582"),
        51: (138, "5726caef859633c0f746d71061efeaa07eae848a483a3c425c9b78802dc30025"),
        2147483630: (2 * 2147483630 + 36, "24c13b831bf0a9392d2dc7095d75ee5d7f3621923742424e73b084a622a1ac5d"),
    }
    with simulated(model, "--label", "mine") as address:
        for chain, (v, r) in vectors.items():
            with node_with(address, "--chain-id", chain) as node, Socket(node) as ask:
                online(ask, address)
                assert ADDRESS.lower() in ask("eth_accounts")
                signed = ask("eth_signTransaction", legacy())
                assert (int(signed["tx"]["v"], 16), signed["tx"]["r"]) == (v, "0x" + r)
                for length in (0, 1024, 1025, 4099):
                    raw = ask("eth_signTransaction", legacy("0x" + "ab" * length))["raw"]
                    assert Account.recover_transaction(raw) == ADDRESS
                creation = {key: value for key, value in legacy("0x" + "6000" * 50).items() if key != "to"}
                assert Account.recover_transaction(ask("personal_signTransaction", creation, "passed over")["raw"]) == ADDRESS
                assert ask("eth_sign", ADDRESS, "0x" + b"hello".hex()) == "0x" + HELLO
                message = ask("personal_sign", "0x" + b"hi".hex(), ADDRESS)
                assert Account.recover_message(encode_defunct(b"hi"), signature=message) == ADDRESS


@pytest.mark.parametrize("model", MODELS)
def test_sent_transactions_have_a_type_that_the_device_signs(model):
    with simulated(model) as address, node_with(address) as node, Socket(node) as ask:
        url = online(ask, address)
        rich = ask("eth_accounts")[0]
        ask("eth_sendTransaction", {"from": rich, "to": ADDRESS, "value": hex(10**18)})
        for method, *password in [("eth_sendTransaction",), ("personal_sendTransaction", "passed over")]:
            hash = ask(method, {"from": ADDRESS, "to": TO, "value": "0x1"}, *password)
            sent = ask("eth_getTransactionByHash", hash)
            assert sent["from"] == ADDRESS.lower() and sent["type"] == ("0x2" if model in LATER else "0x0")
            assert ask("eth_getTransactionReceipt", hash)["status"] == "0x1"
        typed = [ADDRESS, MAIL]
        if model in LATER:
            signature = ask("eth_signTypedData_v4", *typed)
            assert Account.recover_message(encode_typed_data(full_message=MAIL), signature=signature) == ADDRESS
        else:
            assert "not supported" in refused(ask, "eth_signTypedData_v4", *typed)
            fees = {"gasPrice": None, "maxFeePerGas": hex(10**10), "maxPriorityFeePerGas": "0x1"}
            assert refused(ask, "eth_signTransaction", legacy(**fees)) == "transaction type not supported"
        # The first account has been used, so the node also derives the next one.
        wallet = lambda: next(wallet for wallet in ask("personal_listWallets") if wallet["url"] == url)
        accounts = until(lambda: wallet()["accounts"], lambda accounts: len(accounts) > 1)
        assert [account["url"] for account in accounts] == [f"{url}/m/44'/60'/0'/0/{index}" for index in (0, 1)]


def test_pin_and_passphrase_are_given_by_calls():
    settings = ["--pin", "1234", "--passphrase", "--label", "mine", "--time-scale", "0"]
    with simulated("one", *settings) as address, node_with(address) as node, Socket(node) as ask, DebugLink(address) as debug:
        url = f"trezor://udp:{address}"
        waiting = until(lambda: status(ask, url), lambda text: text and text.endswith("waiting for PIN"))
        assert waiting == "Trezor v1.8.1 'mine' waiting for PIN"
        assert refused(ask, "personal_openWallet", url) == "trezor: pin needed"
        assert refused(ask, "personal_openWallet", url, "999") == "trezor: PIN invalid"
        failed = next(wallet for wallet in ask("personal_listWallets") if wallet["url"] == url)
        assert (failed["status"], failed["failure"]) == ("Failed: PIN invalid", "PIN invalid")
        assert refused(ask, "personal_openWallet", url, "") == "trezor: pin needed"
        assert refused(ask, "personal_openWallet", url, debug.positions("1234")) == "trezor: passphrase needed"
        assert ask("personal_openWallet", url, "trezor") is None
        assert refused(ask, "personal_openWallet", url) == "wallet already open"
        assert ask("personal_deriveAccount", url, "0") == {"address": HIDDEN.lower(), "url": f"{url}/{PATH}"}
        assert HIDDEN.lower() in ask("eth_accounts"), "it was found by itself"
        for wrong, words in [("trezor://udp:127.0.0.1:1", "unknown wallet"), ("trezor", "protocol scheme missing")]:
            assert refused(ask, "personal_openWallet", wrong) == words
        with pytest.raises(RpcError) as missing:
            ask("personal_openWallet")
        assert missing.value.error["code"] == -32602


@pytest.mark.parametrize("model", ["one", "t-later"])
def test_a_client_that_is_killed_cancels_and_others_are_answered(model):
    with simulated(model, "--approve", "asked") as address, node_with(address, "--http.api", "eth,personal") as node, Socket(node) as ask:
        online(ask, address)
        with DebugLink(address) as debug:
            for _ in range(3):
                connection = http.client.HTTPConnection(node.http_url.removeprefix("http://").rstrip("/"), timeout=60)
                call = {"jsonrpc": "2.0", "id": 1, "method": "eth_signTransaction", "params": [legacy("0x" + "ab" * 2000)]}
                connection.request("POST", "/", json.dumps(call), {"Content-Type": "application/json"})
                for _ in range(20):
                    assert int(ask("eth_chainId"), 16) == 31337 and ask("personal_listWallets")
                # A button pressed now answers a request whose client has just left, or no request at all.
                connection.sock.close()
                connection.close()
                time.sleep(0.3)
                debug.press()
            answers = []

            def sign():
                with Socket(node) as other:
                    answers.append(other("eth_sign", ADDRESS, "0x" + b"hello".hex()))

            signing = threading.Thread(target=sign)
            signing.start()
            while signing.is_alive():
                # A press out of turn makes a Model One complain on the main interface; the press counts once the device
                # asks.
                signing.join(3)
                debug.press()
            assert answers == ["0x" + HELLO]


def test_the_module_is_off_by_default_and_can_be_switched_while_the_node_runs():
    with simulated("t") as address:
        with Node("dev", "--device.udp", address) as node, Socket(node) as ask:
            assert [wallet["url"] for wallet in ask("personal_listWallets")] == ["development://mnemonic"]
            ask("admin_enableModule", "device")
            online(ask, address)
            listed = run("module", "list", "--datadir", node.datadir).stdout
            assert any(line.split()[:3] == ["device", "actor", "enabled"] for line in listed.splitlines()), listed
            ask("admin_disableModule", "device")
            assert ADDRESS.lower() not in ask("eth_accounts")
            assert refused(ask, "eth_sign", ADDRESS, "0x00") == "unknown account"
            ask("admin_enableModule", "device")
            online(ask, address)
            assert ask("eth_sign", ADDRESS, "0x" + b"hello".hex()) == "0x" + HELLO
            assert node.stop() == 0
    wrong = run("dev", "--device.udp", "192.0.2.1:21324", check=False, timeout=60)
    assert wrong.returncode == 2 and "device.udp" in wrong.stderr


def test_a_device_that_is_unplugged_can_be_connected_again():
    with contextlib.ExitStack() as outer:
        with simulated("t-later") as address:
            node = outer.enter_context(node_with(address))
            ask = outer.enter_context(Socket(node))
            url = online(ask, address)
        until(lambda: status(ask, url), lambda text: text is None)
        assert ADDRESS.lower() not in ask("eth_accounts")
        with simulated("t-later", port=address.rsplit(":", 1)[1]):
            assert online(ask, address) == url
            assert ask("eth_sign", ADDRESS, "0x" + b"hello".hex()) == "0x" + HELLO
