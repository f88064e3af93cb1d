"""Simulated hardware wallets for tests: the program's own simulator, and its debug link."""

import contextlib
import signal
import socket
import struct
import subprocess

from tenon_node import BINARY

ADDRESS = "0x73d0385F4d8E00C5e6504C6030F47BF6212736A8"
HIDDEN = "0xE5b1C3D91d7f877Cd628c0A9768Ad6d91fa51cE9"
MODELS = ["one", "t", "one-later", "t-later"]

DECISION, GET_STATE, STATE = 100, 101, 102


@contextlib.contextmanager
def simulated(model, *arguments, port=0):
    """A simulated device, on free ports by default; yields its UDP address."""
    command = [str(BINARY), "device", "simulate", "--model", model, "--port", str(port), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().split()[0]
            yield url.removeprefix("trezor://udp:")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0


def varint(body, at):
    number = shift = 0
    while True:
        byte = body[at]
        at, number, shift = at + 1, number | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return number, at


def fields(body):
    """The fields of a message, by number."""
    at, found = 0, {}
    while at < len(body):
        tag, at = varint(body, at)
        if tag & 7 == 0:
            found[tag >> 3], at = varint(body, at)
        else:
            length, at = varint(body, at)
            found[tag >> 3], at = body[at : at + length], at + length
    return found


class DebugLink:
    """The buttons and the screen of a simulated device."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(20)
        self.socket.connect((host, int(port) + 1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, number, body=b""):
        packet = b"?##" + struct.pack(">HI", number, len(body)) + body
        self.socket.send(packet.ljust(64, b"\0"))

    def press(self, is_confirmed=True):
        """Presses a button, which has an effect only while the device asks for one."""
        self.send(DECISION, bytes([8, int(is_confirmed)]))

    def state(self):
        """The fields of the device's state, by number."""
        self.send(GET_STATE)
        packet = self.socket.recv(65)
        number, length = struct.unpack(">HI", packet[3:9])
        assert packet[:3] == b"?##" and number == STATE
        body = packet[9:]
        while len(body) < length:
            body += self.socket.recv(65)[1:]
        return fields(body[:length])

    def positions(self, pin):
        """The positions of a PIN's digits on the keypad."""
        matrix = self.state()[3].decode()
        return "".join(str(matrix.index(digit) + 1) for digit in pin)
