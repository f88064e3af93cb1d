"""Passwords and keys leave no trace: not in memory, not in logs, not in core files."""

import contextlib
import http.client
import json
import mmap
import os
import secrets
import socket
import time

import pytest
from eth_account import Account

import wire
from signing_service import Refused, SigningService
from simulated_device import DebugLink, simulated
from tenon_node import BINARY, Node, RpcError, folder, run
from test_exposure import over_socket, token


def writable_memory(pid):
    """The bytes of a process's writable memory, in pieces."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            place, rights, *_ = line.split()
            if not rights.startswith("rw") or line.rstrip().endswith(("[vvar]", "[vsyscall]")):
                continue
            start, end = (int(number, 16) for number in place.split("-"))
            at, kept = start, b""
            while at < end:
                try:
                    piece = os.pread(memory.fileno(), min(end - at, 1 << 24), at)
                except OSError:
                    break
                if not piece:
                    break
                # A text across the boundary of two pieces is found too.
                yield kept + piece
                kept, at = piece[-256:], at + len(piece)


def found_in(pid, needles):
    """Names of the secrets found in the process's memory."""
    return {name for piece in writable_memory(pid) for name, needle in needles.items() if needle in piece}


class Secrets:
    """Passwords and a key that do not occur elsewhere."""

    def __init__(self):
        self.key = secrets.token_bytes(32)
        self.password, self.wrong = (f"{word} {secrets.token_hex(16)}" for word in ("password", "wrong"))

    def needles(self):
        return {
            "password": self.password.encode(),
            "wrong password": self.wrong.encode(),
            "key": self.key,
            "key as text": self.key.hex().encode(),
        }

    def use(self, node):
        """Imports, unlocks, signs and locks over the socket, and over WebSocket and HTTP with a token. The HTTP connection
        stays open, as a client's pool keeps it."""
        owner = over_socket(node, "personal_importRawKey", self.key.hex(), self.password)
        self.kept = wire.Http(node, token=token(node))
        self.use_http(owner)
        self.use_broken(node, owner)
        self.use_refused(node, owner)
        self.use_large_buffers(node, owner)
        with wire.WebSocket(node, token=token(node)) as connection:
            for ask in (lambda *call: over_socket(node, *call), lambda *call: wire.ask(connection, wire.request(*call))["result"]):
                assert ask("personal_unlockAccount", owner, self.password, 60) is True
                assert ask("eth_sign", owner, "0x00").startswith("0x")
                assert ask("personal_sign", "0x00", owner, self.password).startswith("0x")
                assert ask("personal_lockAccount", owner) is True
            refused = wire.ask(connection, wire.request("personal_unlockAccount", owner, self.wrong))
            assert wire.code_of(refused)[1] == "could not decrypt key with given password"
            batch = b"[" + wire.request("personal_unlockAccount", owner, self.password) + b"]"
            assert wire.ask(connection, batch)[0]["result"] is True
            misspelt = wire.ask(connection, wire.request("personal_unlokAccount", owner, self.password))
            assert wire.code_of(misspelt)[0] == -32601
            over_socket(node, "personal_lockAccount", owner)

    def use_http(self, owner):
        """A body in one piece, in two, in chunks, in a batch with many other calls, with invalid UTF-8, and on a
        connection that is closed."""
        unlock = wire.request("personal_unlockAccount", owner, self.password)
        wrong = wire.request("personal_unlockAccount", owner, self.wrong)
        without_utf8 = wire.request("personal_unlockAccount", owner, self.password)[:-2] + b',60,"\xff"]}'
        many = [unlock, *[wire.request("eth_getBalance", owner, "latest", id="x" * 1000)] * 30]
        halves = [unlock[:-40], unlock[-40:]]
        assert self.over_http(unlock)["result"] is True
        assert self.over_http(halves)["result"] is True
        assert self.over_http(halves, chunked=True)["result"] is True
        assert self.over_http(b"[" + b",".join(many) + b"]")[0]["result"] is True
        assert wire.code_of(self.over_http(wrong))[1] == "could not decrypt key with given password"
        assert wire.code_of(self.over_http(without_utf8))[1] == "too many arguments, want at most 3"
        assert wire.code_of(self.over_http(unlock.replace(b"unlockAccount", b"unlokAccount")))[0] == -32601
        with wire.Http(self.kept.node, token=token(self.kept.node)) as closed:
            assert wire.ask(closed, unlock)["result"] is True

    def use_broken(self, node, owner):
        """Over each transport, messages that are not JSON, and messages that never become whole."""
        unlock = wire.request("personal_unlockAccount", owner, self.password)
        begun, not_json = unlock[:-2], unlock[:-2] + b"}]"
        long = wire.frame(0x81, unlock[:-1] + b',"more":"' + b"x" * 500_000 + b'"}')
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(unlock)
        for transport in wire.TRANSPORTS:
            with transport(node, token=token(node)) as connection:
                assert wire.code_of(wire.ask(connection, not_json))[0] == -32700
        for transport, pieces in (
            (wire.Http, [head + b"%s\r\n" + begun]),
            (wire.Http, [head + b"%s\r\n", begun[:-3], begun[-3:]]),
            (wire.WebSocket, [wire.frame(0x81, unlock)[:-2]]),
            (wire.WebSocket, [wire.frame(0x01, begun)]),
            (wire.WebSocket, [wire.frame(0x01, begun[:-3]), wire.frame(0x00, begun[-3:])]),
            (wire.WebSocket, [wire.frame(0x01, begun[:20]), wire.frame(0x00, begun[20:])]),
            (wire.WebSocket, [wire.frame(0x01, begun[:20]) + wire.frame(0x00, begun[20:])]),
            # The beginning of a message whose rest needs further reads, and so a larger buffer.
            (wire.WebSocket, [long[: 2 * len(unlock)], long[2 * len(unlock) : -2]]),
            (wire.UnixSocket, [begun, b" "]),
            (wire.UnixSocket, [begun]),
        ):
            with transport(node, token=token(node)) as connection:
                for piece in pieces:
                    connection.send(piece.replace(b"%s", connection.authorization) if transport is wire.Http else piece)
                    time.sleep(0.05)

    def use_refused(self, node, owner):
        """HTTP requests that are refused by their head, on connections that are used again."""
        unlock = wire.request("personal_unlockAccount", owner, self.password)
        bearer = b"Authorization: Bearer %s\r\n" % token(node).encode()
        json_type = b"Content-Type: application/json\r\n"
        for status, path, headers, length in (
            (401, b"/", b"Host: localhost\r\nAuthorization: Bearer stale\r\n" + json_type, 0),
            (415, b"/", b"Host: localhost\r\nContent-Type: text/plain\r\n" + bearer, 0),
            (404, b"/rpc", b"Host: localhost\r\n" + json_type + bearer, 0),
            (403, b"/", b"Host: elsewhere\r\n" + json_type + bearer, 0),
            (413, b"/", b"Host: localhost\r\n" + json_type + bearer, 1 << 30),
        ):
            with wire.Http(node, token=token(node)) as connection:
                head = b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n" % (path, headers, max(length, len(unlock)))
                connection.send(head + unlock)
                connection.receive()
                assert connection.status == status
                if length == 0 and not connection.closes:
                    assert "result" in wire.ask(connection, wire.request("eth_blockNumber"))

    def use_large_buffers(self, node, owner):
        """Requests on HTTP connections whose read buffer has become large: in several pieces, pipelined, and not JSON."""
        unlock = wire.request("personal_unlockAccount", owner, self.password)
        thirds = [unlock[:-50], unlock[-50:-4], unlock[-4:]]
        for send in (
            lambda connection: connection.send_in_pieces(thirds),
            lambda connection: connection.send_in_pieces(thirds, chunked=True),
            lambda connection: connection.send_message(unlock),
            lambda connection: [connection.send_message(unlock) for _ in range(3)],
            lambda connection: connection.send_message(unlock[:-2] + b"}]"),
        ):
            with wire.Http(node, token=token(node)) as connection:
                wire.ask(connection, wire.request("eth_blockNumber", id="x" * 20_000))
                for _ in range(3):
                    wire.ask(connection, wire.request("eth_blockNumber"))
                send(connection)
                connection.receive()

    def over_http(self, body, **options):
        """Sends a request over the connection that stays open, or over a new one if the node has closed it."""
        if isinstance(body, bytes):
            self.kept.send_message(body)
        else:
            self.kept.send_in_pieces(body, **options)
        answer = json.loads(self.kept.receive())
        if self.kept.closes:
            self.kept.close()
            self.kept = wire.Http(self.kept.node, token=token(self.kept.node))
        return answer


def processes_of(node):
    """The node, and the process of the plugin if it has one."""
    child = over_socket(node, "admin_moduleInfo", "personal")["process"]
    return [node.process.pid, *([child] if child else [])]


def scanned(node, needles):
    """Returns the secrets that remain after finished calls have been dropped."""
    for _ in range(20):
        found = [found_in(pid, needles) for pid in processes_of(node)]
        if not any(found):
            break
        time.sleep(0.1)
    return found


@pytest.fixture(params=["in-process", "process"])
def options(request):
    with folder() as path:
        (path / "config.toml").write_text(f'[plugins.personal]\nisolation = "{request.param}"\n')
        yield ["--config", path / "config.toml", "--lightkdf", "--ws.api", "eth,personal", "--http.api", "eth,personal", "--verbosity", "5"]


def test_memory_and_logs_hold_nothing_after_unlock_use_and_lock(options):
    own = Secrets()
    with Node("dev", *options) as node:
        own.use(node)

        assert not any(scanned(node, own.needles()))
        log = node.log_path.read_bytes()
        assert not [name for name, needle in own.needles().items() if needle in log]


def test_a_websocket_message_that_is_refused_for_lack_of_memory_is_wiped():
    own = Secrets()
    limits = ["--rpc.memory", "72MiB", "--rpc.clientmemory", "6MiB"]
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(Node("dev", "--lightkdf", "--ws.api", "eth,personal", *limits))
        # Unfinished messages use up the client's share, in ever smaller steps. If one does not fit, its refusal arrives at
        # once.
        size, attempts = 3_000_000, 0
        while size > 9_000:
            attempts += 1
            assert attempts <= 100, f"{attempts - 1} messages have not used up the client's share; the last had {size} bytes"
            connection = stack.enter_context(wire.WebSocket(node, token=token(node)))
            connection.send(wire.frame(0x81, b"1," * (size // 2))[:-100])
            time.sleep(0.3)
            if connection.has_answer():
                size = size * 2 // 3
        body = wire.request("personal_unlockAccount", "0x" + "11" * 20, own.password, id="x" * 40_000)
        place = body.index(own.password.encode())
        masked = bytes(byte ^ (1, 2, 3, 4)[(place + at) % 4] for at, byte in enumerate(own.password.encode()))
        message = wire.frame(0x81, body)
        with wire.WebSocket(node, token=token(node)) as refused:
            for piece in (message[:7_000], message[7_000:30_000], message[30_000:]):
                refused.send(piece)
                time.sleep(0.2)
            assert wire.code_of(json.loads(refused.receive()))[0] == -32005

            assert not found_in(node.process.pid, {"password": own.password.encode(), "masked password": masked})


LEAK = "TENON_TEST_LEAK_SECRETS"


def can_leak():
    """Whether the program was built with debug assertions: only then it contains the name of the variable."""
    with open(BINARY, "rb") as program, mmap.mmap(program.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(LEAK.encode()) >= 0


def test_the_scan_finds_what_is_leaked_deliberately(options):
    if not can_leak():
        pytest.skip(f"a release build ignores {LEAK}")
    own = Secrets()
    with Node("dev", *options, env=os.environ | {LEAK: "1"}) as node:
        own.use(node)

        found = set().union(*(found_in(pid, own.needles()) for pid in processes_of(node)))

        assert {"password", "key"} <= found


def test_no_process_of_the_node_writes_a_core_file(options):
    with Node("dev", *options) as node:
        for pid in processes_of(node):
            limits = dict(line.split("  ", 1) for line in open(f"/proc/{pid}/limits") if line.startswith("Max core"))
            assert [value.split()[:2] for value in limits.values()] == [["0", "0"]]
            # The files in /proc of a process that cannot be dumped belong to root.
            assert os.stat(f"/proc/{pid}/mem").st_uid == 0


class DeviceSecrets:
    """A PIN of nine digits, and a passphrase, that do not occur elsewhere."""

    def __init__(self):
        self.pin = "".join(secrets.choice("123456789") for _ in range(9))
        self.passphrase = secrets.token_hex(12)
        self.positions = []

    def needles(self):
        positions = {f"positions {at}": text.encode() for at, text in enumerate(self.positions)}
        return {"passphrase": self.passphrase.encode(), "PIN": self.pin.encode()} | positions

    def use(self, node, address):
        """Opens a device with PIN and passphrase, and signs."""
        url = f"trezor://udp:{address}"
        told = lambda: next((each["status"] for each in over_socket(node, "personal_listWallets") if each["url"] == url), "")
        with DebugLink(address) as debug:
            for _ in range(500):
                if told().endswith("waiting for PIN"):
                    break
                time.sleep(0.05)
            self.positions.append(debug.positions(self.pin))
            for text, wanted in [(self.positions[0], "trezor: passphrase needed"), (self.passphrase, None)]:
                try:
                    assert over_socket(node, "personal_openWallet", url, text) is None and wanted is None
                except RpcError as error:
                    assert error.error["message"] == wanted
        account = over_socket(node, "personal_deriveAccount", url, "0", True)["address"]
        assert over_socket(node, "eth_sign", account, "0x00").startswith("0x")
        assert over_socket(node, "personal_sign", "0x00", account, self.passphrase).startswith("0x")


def test_memory_and_logs_hold_no_pin_and_no_passphrase_of_a_device(options):
    own = DeviceSecrets()
    settings = ["--pin", own.pin, "--passphrase", "--time-scale", "0"]
    with simulated("one", *settings) as address:
        with Node("dev", *options, "--device.enabled", "--device.udp", address) as node:
            own.use(node, address)

            assert not any(scanned(node, own.needles()))
            log = node.log_path.read_bytes()
            assert not [name for name, needle in own.needles().items() if needle in log]
            # Proves that the scan works: it finds the wallet's URL, which is not secret.
            assert found_in(node.process.pid, {"url": f"trezor://udp:{address}".encode()})


def test_memory_and_logs_of_the_signing_service_hold_no_password_pin_or_passphrase():
    """The key of an opened key file remains in memory, once; nothing else does."""
    own = DeviceSecrets()
    password, bearer, key = secrets.token_hex(12), secrets.token_hex(20), secrets.token_bytes(32)
    needles = {"password": password.encode(), "key as text": key.hex().encode()}
    with simulated("one", "--pin", own.pin, "--passphrase", "--time-scale", "0") as address, folder() as place:
        (place / "web.token").write_text(bearer)
        (place / "web.token").chmod(0o600)
        account = Account.from_key(key).address
        with SigningService(place, POLICY, SETTINGS, {account: key.hex()}, [address], password=password) as service:
            url = f"trezor://udp:{address}"
            told = lambda: next((each["status"] for each in service.approver("owner", "wallets_list") if each["url"] == url), "")
            with DebugLink(address) as debug:
                for _ in range(500):
                    if told().endswith("waiting for PIN"):
                        break
                    time.sleep(0.05)
                own.positions.append(debug.positions(own.pin))
                with pytest.raises(Refused, match="passphrase needed"):
                    service.approver("owner", "wallets_open", url, own.positions[0])
                with pytest.raises(Refused, match="wallets_opne"):
                    service.approver("owner", "wallets_opne", url, own.passphrase)
                assert service.approver("owner", "wallets_open", url, own.passphrase)
            of_device = service.approver("owner", "wallets_derive", url, "m/44'/60'/0'/0/0")
            for signer in (account, of_device):
                assert service.call("client", "eth_sign", signer, "0x00").startswith("0x")
            connection = http.client.HTTPConnection(service.urls["http"].removeprefix("http://"), timeout=60)
            connection.request("GET", "/api/v1/eth1/publicKeys", headers={"Authorization": f"Bearer {bearer}"})
            assert len(json.loads(connection.getresponse().read())) == 1
            connection.close()

            pid = service.process.pid
            for _ in range(20):
                found = found_in(pid, needles | own.needles())
                if not found:
                    break
                time.sleep(0.1)
            assert not found
            # Proves that the scan works.
            assert found_in(pid, {"key": key, "url": url.encode()}) == {"key", "url"}
            assert os.stat(f"/proc/{pid}/mem").st_uid == 0
            logs = [service.errors().encode(), *(path.read_bytes() for path in (place / "log").iterdir())]
            texts = needles | own.needles() | {"key": key}
            assert not [name for log in logs for name, needle in texts.items() if needle in log]


POLICY = """
version = 1
[[rules]]
name = "messages"
outcome = "allow"
kinds = ["message"]
clients = ["client"]
accounts = "any"
prefixes = "any"
[[rules]]
name = "bytes"
outcome = "deny"
kinds = ["raw"]
"""
SETTINGS = """
[clients.client]
socket = "client.sock"
[clients.web]
token = "web.token"
[http]
address = "127.0.0.1:0"
[approvers.owner]
socket = "owner.sock"
"""


@contextlib.contextmanager
def socket_of_another_user(path):
    """A socket of a user without rights, which accepts connections and never answers."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        # The system reports to clients the user that calls listen.
        os.seteuid(65534)
        try:
            listening.listen()
        finally:
            os.seteuid(0)
        yield listening


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can listen as another user")
def test_a_password_is_not_sent_to_another_user_who_listens_at_the_socket():
    with folder() as path:
        shared = path / "shared"
        shared.mkdir()
        shared.chmod(0o1777)
        (path / "password").write_text("secret\n")
        with socket_of_another_user(shared / "tenon.ipc") as listening:
            unlock = ("account", "unlock", "0x" + "11" * 20, "--password", path / "password")
            for command in (
                (*unlock, "--ipcpath", shared / "tenon.ipc"),
                (*unlock, "--datadir", shared),
                ("module", "list", "--datadir", shared),
                ("signer", "wallets", "--socket", shared / "tenon.ipc"),
            ):
                ended = run(*command, check=False, timeout=30)
                assert ended.returncode == 1 and "belongs to another user (id 65534)" in ended.stderr, ended.stderr
                with listening.accept()[0] as connection:
                    assert connection.recv(1) == b"", command
