"""A peer of the eth protocol, written from docs/spec/p2p.md 6 to 13, without any code of the node."""

import functools
import hashlib
import hmac
import os
import socket

import rlp
from Crypto.Cipher import AES
from Crypto.Hash import keccak as _keccak
from eth_keys import keys
from py_ecc.secp256k1 import secp256k1

HELLO, DISCONNECT, PING, PONG = 0, 1, 2, 3
STATUS, GET_HEADERS, HEADERS, GET_BODIES, BODIES = 0x10, 0x13, 0x14, 0x15, 0x16
GET_NODE_DATA, NODE_DATA, GET_RECEIPTS, RECEIPTS = 0x1D, 0x1E, 0x1F, 0x20


def keccak(data):
    return _keccak.new(digest_bits=256, data=data).digest()


def number(value):
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def _xor(one, other):
    return bytes(a ^ b for a, b in zip(one, other))


def _shared_x(private, public):
    point = (int.from_bytes(public[:32], "big"), int.from_bytes(public[32:], "big"))
    return secp256k1.multiply(point, int.from_bytes(private, "big"))[0].to_bytes(32, "big")


def _keys_of(shared):
    material = hashlib.sha256(b"\0\0\0\1" + shared).digest()
    return material[:16], hashlib.sha256(material[16:]).digest()


def _counter(key, iv):
    return AES.new(key, AES.MODE_CTR, nonce=b"", initial_value=iv)


def _encrypt(public, message, authenticated):
    ephemeral = keys.PrivateKey(os.urandom(32))
    key, mac_key = _keys_of(_shared_x(ephemeral.to_bytes(), public))
    iv = os.urandom(16)
    sealed = iv + _counter(key, iv).encrypt(message)
    tag = hmac.new(mac_key, sealed + authenticated, hashlib.sha256).digest()
    return b"\4" + ephemeral.public_key.to_bytes() + sealed + tag


def _decrypt(private, packet, authenticated):
    assert packet[0] == 4
    key, mac_key = _keys_of(_shared_x(private, packet[1:65]))
    sealed, tag = packet[65:-32], packet[-32:]
    assert hmac.new(mac_key, sealed + authenticated, hashlib.sha256).digest() == tag
    return _counter(key, sealed[:16]).decrypt(sealed[16:])


def _compress(data):
    """Compresses into Snappy's block format, without back references."""
    size, length = b"", len(data)
    while length >= 0x80:
        size, length = size + bytes([length & 0x7F | 0x80]), length >> 7
    out = [size + bytes([length])]
    for start in range(0, len(data), 60):
        part = data[start : start + 60]
        out.append(bytes([len(part) - 1 << 2]) + part)
    return b"".join(out)


def _decompress(data):
    size = shift = position = 0
    while True:
        byte = data[position]
        size, shift, position = size | (byte & 0x7F) << shift, shift + 7, position + 1
        if byte < 0x80:
            break
    out = bytearray()
    while position < len(data):
        tag, position = data[position], position + 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                count = length - 59
                length = int.from_bytes(data[position : position + count], "little")
                position += count
            out += data[position : position + length + 1]
            position += length + 1
            continue
        if tag & 3 == 1:
            length, offset = (tag >> 2 & 7) + 4, tag >> 5 << 8 | data[position]
            position += 1
        else:
            count = 2 if tag & 3 == 2 else 4
            length, offset = (tag >> 2) + 1, int.from_bytes(data[position : position + count], "little")
            position += count
        for _ in range(length):
            out.append(out[-offset])
    assert len(out) == size
    return bytes(out)


class Closed(Exception):
    """The other side ended the connection; `reason` is the reason of its Disconnect, or None."""

    def __init__(self, reason=None):
        super().__init__(f"closed, reason {reason}")
        self.reason = reason


class Peer:
    """A connection dialed by this side."""

    def __init__(self, enode, source="127.0.0.1", key=None, timeout=60):
        rest = enode.removeprefix("enode://")
        node, address = rest.split("@")
        host, port = address.split("?")[0].rsplit(":", 1)
        self.remote = bytes.fromhex(node)
        self.key = key or keys.PrivateKey(os.urandom(32))
        self.id = self.key.public_key.to_bytes()
        self.address, self.source, self.timeout = (host, int(port)), source, timeout
        self.is_compressed = False

    @functools.cached_property
    def socket(self):
        """Opened on first use: the node closes a connection whose handshake does not begin soon."""
        return socket.create_connection(self.address, self.timeout, source_address=(self.source, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if "socket" in self.__dict__:
            self.socket.close()

    def _read(self, count):
        data = bytearray()
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except (ConnectionResetError, BrokenPipeError):
                part = b""
            if not part:
                raise Closed()
            data += part
        return bytes(data)

    def auth(self):
        """The first packet of the handshake."""
        self.nonce, self.ephemeral = os.urandom(32), keys.PrivateKey(os.urandom(32))
        mixed = _xor(_shared_x(self.key.to_bytes(), self.remote), self.nonce)
        signature = self.ephemeral.sign_msg_hash(mixed).to_bytes()
        body = rlp.encode([signature, self.id, self.nonce, b"\4"]) + bytes(100)
        prefix = (len(body) + 65 + 16 + 32).to_bytes(2, "big")
        return prefix + _encrypt(self.remote, body, prefix)

    def handshake(self):
        auth = self.auth()
        self.socket.sendall(auth)
        prefix = self._read(2)
        packet = self._read(int.from_bytes(prefix, "big"))
        content = _decrypt(self.key.to_bytes(), packet, prefix)
        ephemeral, nonce = rlp.decode(content, strict=False)[:2]
        shared = _shared_x(self.ephemeral.to_bytes(), ephemeral)
        secret = keccak(shared + keccak(nonce + self.nonce))
        aes = keccak(shared + secret)
        self.mac_key = keccak(shared + aes)
        self.out, self.into = _counter(aes, bytes(16)), _counter(aes, bytes(16))
        self.out_mac = _keccak.new(digest_bits=256, update_after_digest=True, data=_xor(self.mac_key, nonce) + auth)
        self.into_mac = _keccak.new(
            digest_bits=256, update_after_digest=True, data=_xor(self.mac_key, self.nonce) + prefix + packet
        )
        return self

    def _mac(self, state, seed):
        sealed = AES.new(self.mac_key, AES.MODE_ECB).encrypt(state.digest()[:16])
        state.update(_xor(sealed, seed))
        return state.digest()[:16]

    def frame_header(self, size):
        header = self.out.encrypt((size.to_bytes(3, "big") + b"\xc2\x80\x80").ljust(16, b"\0"))
        return header + self._mac(self.out_mac, header)

    def frame(self, content):
        header = self.frame_header(len(content))
        body = self.out.encrypt(content + bytes(-len(content) % 16))
        self.out_mac.update(body)
        return header + body + self._mac(self.out_mac, self.out_mac.digest()[:16])

    def send(self, code, payload):
        payload = _compress(payload) if self.is_compressed else payload
        self.socket.sendall(self.frame(rlp.encode(number(code)) + payload))

    def receive(self):
        """The next message of any kind."""
        header = self._read(32)
        assert self._mac(self.into_mac, header[:16]) == header[16:]
        size = int.from_bytes(self.into.decrypt(header[:16])[:3], "big")
        body = self._read(size + -size % 16 + 16)
        self.into_mac.update(body[:-16])
        assert self._mac(self.into_mac, self.into_mac.digest()[:16]) == body[-16:]
        content = self.into.decrypt(body[:-16])[:size]
        code = 0 if content[0] == 0x80 else content[0] if content[0] < 0x80 else content[1]
        payload = content[1:] if content[0] <= 0x80 else content[2:]
        # A short Disconnect is never compressed (docs/spec/p2p.md 7).
        if self.is_compressed and not (code == DISCONNECT and payload[0] in (0xC0, 0xC1)):
            payload = _decompress(payload)
        if code == DISCONNECT:
            reason = rlp.decode(payload)
            raise Closed(int.from_bytes(reason[0], "big") if reason else 0)
        return code, payload

    def hello(self, capabilities=(("eth", 100), ("eth", 63), ("eth", 62)), version=5):
        listed = [[name.encode(), number(version)] for name, version in capabilities]
        self.send(HELLO, rlp.encode([number(version), b"scripted peer", listed, b"", self.id]))
        code, payload = self.receive()
        assert code == HELLO, code
        self.is_compressed = version >= 5
        return rlp.decode(payload, strict=False)

    def message(self, wanted):
        """Returns the next message of one kind. Pings are answered, other messages are skipped."""
        while True:
            code, payload = self.receive()
            if code == PING:
                self.send(PONG, b"\xc0")
            if code == wanted:
                return rlp.decode(payload)

    def status(self, network, genesis, head=None, difficulty=1, version=100):
        """Sends this side's Status, and receives the node's."""
        self.send(STATUS, rlp.encode([number(version), number(network), number(difficulty), head or genesis, genesis]))
        return self.message(STATUS)

    def ask(self, code, content, answer):
        self.send(code, rlp.encode(content))
        return self.message(answer)

    def headers(self, origin, amount, skip=0, is_reverse=False):
        origin = origin if isinstance(origin, bytes) else number(origin)
        return self.ask(GET_HEADERS, [origin, number(amount), number(skip), number(int(is_reverse))], HEADERS)

    def wait_until_closed(self):
        """Reads until the end; returns the reason of the Disconnect, or None."""
        try:
            while True:
                self.receive()
        except Closed as closed:
            return closed.reason
