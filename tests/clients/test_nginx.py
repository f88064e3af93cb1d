"""nginx in front of a node, configured as in docs/public-node.md: TLS, limits, tokens, and the client that the node
sees."""

import base64
import concurrent.futures
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest

from tenon_node import ROOT, Node, folder

sys.path.insert(0, str(ROOT / "tests" / "faults"))
import wire  # noqa: E402

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
PAGE = ROOT / "docs" / "public-node.md"
NAME = "node.example.org"
FIRST, SECOND, THIRD, FOURTH = (f"127.0.0.{number}" for number in range(2, 6))
LIMIT, SERVER, UNKNOWN = -32005, -32000, -32601
LOOP = "0x5b600056"


def replaced(text, old, new):
    """The page's configuration with one replacement, which must match."""
    assert old in text, f"docs/public-node.md does not say {old!r}"
    return text.replace(old, new)


def free_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as found:
        return found.getsockname()[1]


def configuration(node, path, port):
    """The page's configuration, with this node, these paths and this port, inside a minimal nginx configuration."""
    page = re.search(r"```nginx\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    address = lambda url: url.split("://", 1)[1].rstrip("/")
    page = replaced(page, "127.0.0.1:8545", address(node.http_url))
    page = replaced(page, "127.0.0.1:8546", address(node.ws_url))
    page = replaced(page, "listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
    page = replaced(page, f"/etc/ssl/{NAME}/fullchain.pem", f"{path}/certificate.pem")
    page = replaced(page, f"/etc/ssl/{NAME}/privkey.pem", f"{path}/key.pem")
    folders = "\n".join(f"{kind}_temp_path {path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;" if os.geteuid() == 0 else ""
    return f"""
{user}
daemon off;
worker_processes 1;
pid {path}/nginx.pid;
error_log {path}/error.log;
events {{ worker_connections 512; }}
http {{
access_log off;
{folders}
{page}
}}
"""


@contextlib.contextmanager
def proxied(*arguments):
    """A node that trusts its proxy, and nginx in front of it; yields both and the port."""
    with folder() as path, Node("dev", "--http.proxies", "127.0.0.1", "--http.requesttimeout", "30s", *arguments) as node:
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
        subprocess.run([*command, "-keyout", path / "key.pem", "-out", path / "certificate.pem"], check=True, capture_output=True)
        # The port may be taken between its choice and the start of nginx: then another one is tried.
        for _ in range(5):
            port = free_port()
            (path / "nginx.conf").write_text(configuration(node, path, port))
            nginx = subprocess.Popen([NGINX, "-p", str(path), "-e", f"{path}/error.log", "-c", f"{path}/nginx.conf"], stderr=subprocess.PIPE)
            if is_listening(nginx, port):
                break
        else:
            raise AssertionError(f"nginx did not start: {nginx.stderr.read().decode()}{(path / 'error.log').read_text()}")
        try:
            yield Proxied(node, port, path / "certificate.pem")
        finally:
            nginx.terminate()
            nginx.wait(10)


def is_listening(nginx, port):
    deadline = time.monotonic() + 30
    while nginx.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        time.sleep(0.02)
    return False


class Proxied:
    def __init__(self, node, port, certificate):
        self.node, self.port = node, port
        self.tls = ssl.create_default_context(cafile=certificate)

    def connection(self, source, timeout=60):
        """A TLS connection from an address of this machine; the certificate is checked."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout, (source, 0))
        return self.tls.wrap_socket(plain, server_hostname=NAME)

    def post(self, body, source=FIRST, headers=None, path="/"):
        """Status and body of an answer."""
        client = http.client.HTTPConnection(NAME, self.port, timeout=60)
        client.sock = self.connection(source)
        with contextlib.closing(client):
            client.request("POST", path, body, {"Content-Type": "application/json", **(headers or {})})
            answer = client.getresponse()
            return answer.status, answer.read()

    def call(self, method, *params, **options):
        status, body = self.post(wire.request(method, *params), **options)
        assert status == 200, (status, body)
        return json.loads(body)


class SecureWebSocket(wire.WebSocket):
    """WebSocket through the proxy, at the path that the page gives it."""

    def __init__(self, proxy, source, headers=""):
        self.proxy, self.headers = proxy, headers
        super().__init__(proxy.node, timeout=60, source=source)

    def connect(self):
        found = self.proxy.connection(self.source)
        upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        found.sendall(f"GET /ws HTTP/1.1\r\nHost: {NAME}\r\n{upgrade}{self.headers}\r\n".encode())
        self.socket = found
        head = self.take_until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head
        return found


def token(node, subject):
    """A bearer token of this node's secret."""
    secret = bytes.fromhex((node.datadir / "jwt.hex").read_text().strip().removeprefix("0x"))
    part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")
    signed = part({"alg": "HS256", "typ": "JWT"}) + b"." + part({"iat": int(time.time()), "sub": subject})
    signature = base64.urlsafe_b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).rstrip(b"=")
    return f"Bearer {(signed + b'.' + signature).decode()}"


@pytest.fixture(scope="module")
def proxy():
    with proxied("--http.api", "eth,net,web3,admin", "--ws.api", "eth,net,web3,admin", "--auth.namespaces", "admin") as found:
        yield found


def test_calls_and_subscriptions_come_through_tls(proxy):
    assert proxy.call("eth_chainId")["result"] == proxy.node.call("eth_chainId")
    with SecureWebSocket(proxy, FIRST) as websocket:
        assert "result" in wire.ask(websocket, wire.request("eth_chainId"))
        assert "result" in wire.ask(websocket, wire.request("eth_subscribe", "newHeads"))
    assert proxy.post(b"", path="/health")[0] == 404, "the operator's, on loopback"


def test_tokens_work_through_the_proxy(proxy):
    headers = {"Authorization": token(proxy.node, "operator")}

    assert proxy.call("admin_nodeInfo")["error"]["code"] == UNKNOWN
    assert "result" in proxy.call("admin_nodeInfo", headers=headers)
    assert proxy.post(wire.request("eth_chainId"), headers={"Authorization": "Bearer nonsense"})[0] == 401
    with SecureWebSocket(proxy, FIRST) as plain, SecureWebSocket(proxy, FIRST, f"Authorization: {headers['Authorization']}\r\n") as named:
        assert wire.code_of(wire.ask(plain, wire.request("admin_nodeInfo")))[0] == UNKNOWN
        assert "result" in wire.ask(named, wire.request("admin_nodeInfo"))


def test_limits_hold_for_each_address(proxy):
    body = wire.request("eth_chainId")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        # More concurrent requests than the page's rate and burst permit, however slow this machine is: the burst alone is
        # exceeded after 100.
        found = list(pool.map(lambda _: proxy.post(body, source=THIRD)[0], range(400)))
    assert found.count(200) >= 100
    assert set(found) <= {200, 429}
    assert proxy.post(body, source=FOURTH)[0] == 200, "another address has its own"
    assert proxy.post(b" " * (5 << 20) + body, source=FOURTH)[0] == 413
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(SecureWebSocketOnce(proxy, SECOND))
        with pytest.raises(AssertionError, match="HTTP/1.1 429"):
            SecureWebSocket(proxy, SECOND)
        assert proxy.post(body, source=FOURTH)[0] == 200


class SecureWebSocketOnce(SecureWebSocket):
    """Retries until the rate permits the request."""

    def connect(self):
        while True:
            try:
                return super().connect()
            except AssertionError as error:
                assert " 429 " in str(error)
                self.received = b""
                time.sleep(0.05)


def loop(gas, method="eth_estimateGas"):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": [{"data": LOOP, "gas": hex(gas)}, "latest"]}


def test_the_node_distinguishes_the_proxys_clients_whatever_headers_they_send():
    # A client has two places in this queue, which the first client's batches occupy most of the time.
    with proxied("--rpc.queue", "4", "--rpc.threads", "1", "--rpc.computingtime", "0s") as proxy:
        flood = json.dumps([loop(50_000_000) for _ in range(40)])
        small = json.dumps(loop(100_000, "eth_call"))
        code = lambda source, headers: wire.code_of(json.loads(proxy.post(small, source, headers)[1]))[0]
        stop = threading.Event()

        def keep_flooding():
            while not stop.is_set():
                assert proxy.post(flood, FIRST)[0] == 200

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            flooding = pool.submit(keep_flooding)
            try:
                for pretended in ({}, {"X-Forwarded-For": SECOND}, {"Forwarded": f"for={SECOND}"}):
                    deadline, own, other = time.monotonic() + 60, [], []
                    while LIMIT not in own:
                        assert time.monotonic() < deadline, f"{pretended} made it another client: {own}"
                        own.append(code(FIRST, pretended))
                        other.append(code(SECOND, {}))
                    assert set(other) == {SERVER}, "another client's calls were refused for the flood"
            finally:
                stop.set()
            flooding.result()
