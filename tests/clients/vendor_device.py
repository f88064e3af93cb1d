"""Drives a simulated device with the vendor's own host library, and prints what it got as JSON.

Run by test_device.py with a Python that has the library (any of 0.11.6, 0.12.4, 0.13.10, 0.20.2):
vendor_device.py PORT PASSPHRASE PIN WHAT..., where WHAT is among fee-market, typed-data, typed-hash.
"""

import json
import socket
import struct
import sys

import trezorlib
from trezorlib import ethereum
from trezorlib.transport.udp import UdpTransport

PORT, PASSPHRASE, PIN, WHAT = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
HARDENED = 0x80000000
PATH = [44 | HARDENED, 60 | HARDENED, HARDENED, 0, 0]
TO = "0x1d1c328764a41bda0492b66baa30c4a339ff85ef"
MAIL = {
    "types": {
        "EIP712Domain": [{"name": "name", "type": "string"}],
        "Mail": [{"name": "contents", "type": "string"}, {"name": "numbers", "type": "uint256[]"}],
    },
    "primaryType": "Mail",
    "domain": {"name": "Ether Mail"},
    "message": {"contents": "hello", "numbers": [1, 2]},
}


def pin_positions(*_, **__):
    """The positions of the PIN's digits, from the arrangement that the debug link reports."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as debug:
        debug.settimeout(10)
        debug.sendto(b"?##" + struct.pack(">HI", 101, 0) + bytes(55), ("127.0.0.1", PORT + 1))
        first = debug.recv(64)
        length = struct.unpack(">I", first[5:9])[0]
        body = first[9:]
        while len(body) < length:
            body += debug.recv(64)[1:]
    at = 0
    while at < length:
        key, at = body[at], at + 1
        if key & 7 == 0:
            while body[at] & 0x80:
                at += 1
            at += 1
            continue
        size, at = body[at], at + 1
        if key >> 3 == 3:
            matrix = body[at : at + size].decode()
            return "".join(str(matrix.index(digit) + 1) for digit in PIN)
        at += size
    raise AssertionError("no matrix")


class Interface:
    """The user interface that earlier versions of the library require."""

    def button_request(self, *_):
        pass

    get_pin = staticmethod(pin_positions)

    def get_passphrase(self, *_, **__):
        return PASSPHRASE


def connect():
    transport = UdpTransport("127.0.0.1:%d" % PORT)
    if tuple(int(part) for part in trezorlib.__version__.split(".")[:2]) >= (0, 20):
        from trezorlib.client import AppManifest, get_client

        client = get_client(AppManifest(app_name="tenon-test", pin_callback=pin_positions), transport)
        return client, client.get_session(passphrase=PASSPHRASE)
    from trezorlib.client import TrezorClient

    client = TrezorClient(transport, ui=Interface())
    return client, client


def signature(parts):
    return {"v": parts[0], "r": parts[1].hex(), "s": parts[2].hex()}


client, session = connect()
common = {"nonce": 0, "gas_limit": 20, "to": TO, "value": 10}
long = b"ABCDEFGHIJKLMNOP" * 256 + b"!!!"
message = ethereum.sign_message(session, PATH, "hello")
results = {
    "version": trezorlib.__version__,
    "model": client.features.model,
    "address": ethereum.get_address(session, PATH),
    "message": message.signature.hex(),
    "transaction": signature(ethereum.sign_tx(session, PATH, gas_price=20, data=b"", chain_id=50, **common)),
    "long": signature(ethereum.sign_tx(session, PATH, gas_price=20, data=long, chain_id=50, **common)),
}
if "fee-market" in WHAT:
    fees = {"max_gas_fee": 20, "max_priority_fee": 1}
    parts = ethereum.sign_tx_eip1559(session, PATH, data=b"", chain_id=551, **fees, **common)
    results["fee-market"] = signature(parts)
if "typed-data" in WHAT:
    results["typed-data"] = ethereum.sign_typed_data(session, PATH, MAIL).signature.hex()
if "typed-hash" in WHAT:
    signed = ethereum.sign_typed_data_hash(session, PATH, b"\x01" * 32, b"\x02" * 32)
    results["typed-hash"] = signed.signature.hex()
print(json.dumps(results))
