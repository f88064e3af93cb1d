"""Hardware wallets: the command line against simulated devices, and the vendor's library against them.

VENDOR_PYTHONS names Pythons that have the vendor's library, separated by colons; each drives the simulator. None is needed
to build or test Tenon.
"""

import json
import os
import pathlib
import socket
import subprocess

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data

from simulated_device import ADDRESS, HIDDEN, MODELS, simulated
from tenon_node import run

HELLO = (
    "2a91d411ed68262c5143f284d8add365d7797136f2cd7e05173b340d2e2f4e50"
    "31813bbac1252d5ef54d996011a72756300841626eecdeb7f1dee918184cf2db1b"
)
TO = "0x1d1c328764a41bda0492b66baa30c4a339ff85ef"
VENDORS = [path for path in os.environ.get("VENDOR_PYTHONS", "").split(":") if path]
MAIL = {
    "types": {
        "EIP712Domain": [{"name": "name", "type": "string"}, {"name": "chainId", "type": "uint256"}],
        "Person": [{"name": "name", "type": "string"}, {"name": "wallets", "type": "address[]"}],
        "Mail": [{"name": "to", "type": "Person[2]"}, {"name": "score", "type": "int8"}],
    },
    "primaryType": "Mail",
    "domain": {"name": "Ether Mail", "chainId": 50},
    "message": {
        "to": [{"name": "Cow", "wallets": [TO, TO]}, {"name": "Bob", "wallets": []}],
        "score": -3,
    },
}


def device(address, command, *arguments, **options):
    return run("device", command, "--udp", address, *arguments, **options)


def lines(result):
    return result.stdout.strip().splitlines()


def signed(address, tmp_path, transaction):
    path = tmp_path / "transaction.json"
    path.write_text(json.dumps(transaction))
    return lines(device(address, "sign", "--transaction", str(path)))[-1]


def legacy(chain_id, data):
    members = {"nonce": 1, "gas": 90000, "gasPrice": "0x3b9aca00", "to": TO, "value": 10}
    return {**members, "chainId": chain_id, "data": "0x" + "ab" * data}


@pytest.mark.parametrize("model", MODELS)
def test_the_command_line_signs_on_every_model(model, tmp_path):
    with simulated(model, "--label", "mine") as address:
        assert f"trezor://udp:{address}  udp" in lines(device(address, "list"))
        assert "'mine' online" in lines(device(address, "open"))[-1]
        assert lines(device(address, "accounts", "--count", "2"))[0] == f"{ADDRESS}  m/44'/60'/0'/0/0"
        assert lines(device(address, "show-address"))[-1].startswith(ADDRESS)
        message = lines(device(address, "sign", "--message", "hello"))[-1]
        assert message == "0x" + HELLO
        assert Account.recover_message(encode_defunct(text="hello"), signature=message) == ADDRESS
        for chain_id, data in [(1, 0), (50, 1024), (51, 1025), (2147483630, 4099)]:
            raw = signed(address, tmp_path, legacy(chain_id, data))
            assert Account.recover_transaction(raw) == ADDRESS
        creation = {**legacy(50, 100), "to": None}
        assert Account.recover_transaction(signed(address, tmp_path, creation)) == ADDRESS


@pytest.mark.parametrize("model", ["one-later", "t-later"])
def test_later_models_sign_type_2_and_typed_data(model, tmp_path):
    members = {key: value for key, value in legacy(551, 2000).items() if key != "gasPrice"}
    fee_market = {**members, "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": 1}
    path = tmp_path / "typed.json"
    path.write_text(json.dumps(MAIL))
    with simulated(model) as address:
        assert Account.recover_transaction(signed(address, tmp_path, fee_market)) == ADDRESS
        signature = lines(device(address, "sign", "--typed-data", str(path)))[-1]
    assert Account.recover_message(encode_typed_data(full_message=MAIL), signature=signature) == ADDRESS


def test_a_passphrase_from_a_file(tmp_path):
    path = tmp_path / "passphrase"
    path.write_text("trezor\n")
    for model in MODELS:
        with simulated(model, "--passphrase", "--passphrase-source", "host") as address:
            listed = lines(device(address, "accounts", "--passphrase", str(path)))
            assert listed[0].startswith(HIDDEN), model


def test_failures_are_reported(tmp_path):
    path = tmp_path / "transaction.json"
    with simulated("one") as address:
        members = {key: value for key, value in legacy(551, 0).items() if key != "gasPrice"}
        path.write_text(json.dumps({**members, "maxFeePerGas": 2, "maxPriorityFeePerGas": 1}))
        refused = device(address, "sign", "--transaction", str(path), check=False)
        assert refused.returncode == 1 and "transaction type not supported" in refused.stderr
        path.write_text("{")
        assert device(address, "sign", "--transaction", str(path), check=False).returncode == 2
    with simulated("t", "--approve", "never") as address:
        refused = device(address, "show-address", check=False)
        assert refused.returncode == 1 and "trezor: Cancelled" in refused.stderr
    gone = device(address, "open", "--device", "trezor://udp:127.0.0.1:1", check=False)
    assert gone.returncode == 1 and "unknown wallet" in gone.stderr


def test_nothing_is_sent_to_a_simulator_that_was_not_named(tmp_path):
    passphrase = tmp_path / "passphrase"
    passphrase.write_text("secret\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        try:
            listening.bind(("127.0.0.1", 21324))
        except OSError:
            pytest.skip("the usual port of simulators is in use")
        listening.setblocking(False)
        assert "udp:" not in run("device", "list").stdout
        refused = run("device", "accounts", "--passphrase", passphrase, "--device", "trezor://udp:127.0.0.1:21324", check=False)
        assert refused.returncode == 1 and "unknown wallet" in refused.stderr
        with pytest.raises(BlockingIOError):
            listening.recv(1)


@pytest.mark.skipif(not VENDORS, reason="VENDOR_PYTHONS names no Python with the vendor's library")
@pytest.mark.parametrize("python", VENDORS)
@pytest.mark.parametrize("model", MODELS)
def test_the_vendors_library_drives_the_simulator(python, model, tmp_path):
    script = pathlib.Path(__file__).with_name("vendor_device.py")

    def drive(address, passphrase, pin, *what):
        command = [python, str(script), address.rsplit(":", 1)[1], passphrase, pin, *what]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.strip().splitlines()[-1])

    version = subprocess.run(
        [python, "-c", "import trezorlib; print(trezorlib.__version__)"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if tuple(int(part) for part in version.split(".")[:2]) >= (0, 20) and model == "t":
        pytest.skip("this version of the library wants firmware 2.3.0 or later")
    is_recent = tuple(int(part) for part in version.split(".")[:2]) >= (0, 13)
    what = ["fee-market"] if is_recent and "later" in model else []
    if what:
        what.append("typed-data" if model == "t-later" else "typed-hash")
    pin = ["--pin", "1234", "--time-scale", "0"] if model.startswith("one") else []
    with simulated(model, *pin) as address:
        results = drive(address, "", "1234", *what)
    assert results["address"] == ADDRESS
    assert results["message"] == HELLO
    assert results["transaction"]["r"] == "9d74b5d455a58b05cb41da6cb482e1d9e4356b97a68c3c54d99c556e4ab2d582"
    assert results["long"]["r"] == "3ceb27b4bb8c7cf34db723633feaba1994f37e8607948d62bd75de8262fa0788"
    assert set(what) <= set(results)
    with simulated(model, "--passphrase", "--passphrase-source", "host") as address:
        assert drive(address, "trezor", "")["address"] == HIDDEN
