"""The three transports at the level of bytes, for malformed input that no ordinary library sends."""

import json
import os
import re
import select
import socket
import struct
import time


class Hung(Exception):
    """The node closed the connection without an answer."""


class Connection:
    """A socket with its buffer of received data."""

    def __init__(self, node, timeout=30, token=None, source=None):
        """`source` is the local address of a TCP connection: to the node, every address of 127.0.0.0/8 is a different
        client."""
        self.node, self.timeout, self.source, self.received = node, timeout, source, b""
        self.authorization = b"Authorization: Bearer %s\r\n" % token.encode() if token else b""
        self.socket = self.connect()

    def tcp(self, url):
        host, port = url.split("://", 1)[1].rstrip("/").rsplit(":", 1)
        found = socket.create_connection((host, int(port)), self.timeout, (self.source, 0) if self.source else None)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Hung(error) from error

    def more(self):
        try:
            data = self.socket.recv(1 << 20)
        except TimeoutError:
            raise
        except OSError as error:
            raise Hung(error) from error
        if not data:
            raise Hung("closed")
        self.received += data

    def take(self, length):
        while len(self.received) < length:
            self.more()
        taken, self.received = self.received[:length], self.received[length:]
        return taken

    def take_until(self, end):
        while (position := self.received.find(end)) < 0:
            self.more()
        return self.take(position + len(end))

    def is_closed(self, within):
        """Returns whether the node closes the connection within this many seconds, regardless of what it sends
        before."""
        self.socket.settimeout(within)
        try:
            while True:
                self.more()
        except Hung:
            return True
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(self.timeout)

    def has_answer(self):
        """Returns whether unread data has arrived."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Http(Connection):
    """HTTP/1.1, kept alive."""

    name = "http"
    survives_rubbish = True
    closes = False

    def connect(self):
        return self.tcp(self.node.http_url)

    def send_message(self, text, headers=None):
        """Sends a request, over a new connection if the last answer announced the end of this one."""
        if self.closes:
            self.close()
            self.socket, self.closes = self.connect(), False
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items()).encode()
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(text)
        self.send(head + self.authorization + more + b"\r\n" + text)

    def send_in_pieces(self, pieces, chunked=False):
        """A body whose pieces arrive one after the other."""
        length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % sum(map(len, pieces))
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n" % length
        self.send(head + self.authorization + b"\r\n")
        for piece in pieces:
            time.sleep(0.05)
            self.send(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            self.send(b"0\r\n\r\n")

    def receive(self):
        """The body of an answer. `status` is its status, `closes` whether the node closes the connection afterwards."""
        head = self.take_until(b"\r\n\r\n").decode()
        self.status = int(head.split(" ", 2)[1])
        self.closes = "connection: close" in head.lower()
        length = re.search(r"(?i)content-length: *(\d+)", head)
        return self.take(int(length[1])) if length else b""


class WebSocket(Connection):
    """WebSocket, one message per frame."""

    name = "websocket"
    survives_rubbish = False

    def connect(self):
        found = self.tcp(self.node.ws_url)
        found.sendall(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n" + self.authorization + b"\r\n"
        )
        self.socket = found
        head = self.take_until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head
        return found

    def send_message(self, text):
        self.send(frame(0x81, text))

    def receive(self):
        first, second = self.take(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack(">H", self.take(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self.take(8))
        payload = self.take(length)
        if first & 0x0F == 8:
            self.close_code = int.from_bytes(payload[:2], "big")
            raise Hung(f"close frame {self.close_code}")
        return payload


def frame(first, payload, mask=b"\1\2\3\4"):
    """A client's frame."""
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", first, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", first, 0x80 | 127, size)
    pad = (mask * (size // 4 + 1))[:size]
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(pad, "big")
    return head + mask + masked.to_bytes(size, "big")


class UnixSocket(Connection):
    """Concatenated JSON values."""

    name = "socket"
    survives_rubbish = False

    def connect(self):
        found = socket.socket(socket.AF_UNIX)
        found.settimeout(self.timeout)
        found.connect(self.node.ipc_path)
        return found

    def send_message(self, text):
        self.send(text + b"\n")

    def receive(self):
        return self.take_until(b"\n")


TRANSPORTS = (Http, WebSocket, UnixSocket)


def request(method, *params, **members):
    """The text of a call."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params), **members}).encode()


def ask(connection, text):
    """Sends a message and returns the answer, parsed as JSON; `None` if the answer is empty."""
    connection.send_message(text)
    answer = connection.receive()
    return json.loads(answer) if answer.strip() else None


def code_of(answer):
    """The error's code and message, or `(0, "")` for a successful answer. For a batch, the first entry's."""
    answer = answer[0] if isinstance(answer, list) else answer
    error = answer.get("error") if answer else None
    return (error["code"], error["message"]) if error else (0, "")


def open_files_allowed():
    """The maximum number of open files of this process, raised as far as possible."""
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most if most != resource.RLIM_INFINITY else 1 << 20


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))
