"""The signing service as a process: approvals, policy changes, confinement, kills, a full disk, TLS."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import resource
import select
import socket
import ssl
import stat
import subprocess
import threading
import time

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from kills import dice, kills
from signing_service import OTHER, OWN, Connection, Refused, SigningService
from tenon_node import BINARY, folder, run

FRIEND = "0x90F79bf6EB2c4f870365E785982E1f101E93b906"

POLICY = f"""
version = 1

[[rules]]
name = "small"
outcome = "allow"
kinds = ["transaction"]
clients = ["payroll"]
accounts = "any"
chains = [50]
recipients = ["{FRIEND}"]
functions = "none"
max-value = "1 ether"
max-fee = "1 ether"
window = "24h"
max-requests-in-window = 40

[[rules]]
name = "asked"
outcome = "ask"
kinds = ["message"]
clients = ["payroll", "alice"]
accounts = "any"
prefixes = "any"
"""

SETTINGS = """
[clients.payroll]
socket = "payroll.sock"
[clients.alice]
socket = "asks-alice.sock"
[approvers.alice]
socket = "alice.sock"
[approvers.bob]
socket = "bob.sock"
clients = ["payroll"]
"""

HELLO = "0x" + b"hello".hex()


@pytest.fixture
def place():
    with folder() as path:
        yield path


def transfer(nonce, value=1):
    return {
        "from": OWN,
        "to": FRIEND,
        "gas": "0x5208",
        "gasPrice": "0x1",
        "value": hex(value),
        "nonce": hex(nonce),
        "chainId": "0x32",
    }


def test_a_message_is_signed_after_a_person_has_seen_and_approved_it(place):
    with SigningService(place, POLICY, SETTINGS) as service:
        answer = service.in_background("payroll", "eth_sign", OWN, HELLO)
        waiting = service.waiting("alice")
        socket_of = ["--socket", service.urls["approver alice"]]
        listed = run("signer", "requests", *socket_of).stdout
        shown = run("signer", "show", waiting["number"], *socket_of).stdout
        wrong = run("signer", "approve", waiting["number"], "--hash", "0x" + "00" * 32, *socket_of, check=False)
        blind = run("signer", "approve", waiting["number"], *socket_of, check=False, stdin=subprocess.DEVNULL)
        done = run("signer", "approve", waiting["number"], "--hash", waiting["hash"], *socket_of).stdout

        assert "Sign a message" in listed and "0 of 1 approvals" in listed
        assert "hello" in shown and waiting["hash"] in shown and "Asked by  payroll" in shown
        assert (wrong.returncode, blind.returncode, done) == (1, 2, "approved\n")
        assert "another hash" in wrong.stderr and "no terminal" in blind.stderr
        assert Account.recover_message(encode_defunct(b"hello"), signature=answer()) == OWN
        steps = [step["step"] for step in service.steps()]
    assert steps == ["started", "asked", "decided", "shown", "approved", "signed"]


def test_approvers_cannot_approve_their_own_requests_but_can_deny_any(place):
    with SigningService(place, POLICY, "approvals = 2\n" + SETTINGS) as service:
        answer = service.in_background("alice", "eth_sign", OWN, HELLO)
        waiting = service.waiting("alice")
        with pytest.raises(Refused, match="alice sent it"):
            service.approver("alice", "approvals_approve", waiting["number"], waiting["hash"])
        assert service.approver("bob", "approvals_approve", waiting["number"], waiting["hash"]) == 1
        with pytest.raises(Refused, match="bob has already approved it"):
            service.approver("bob", "approvals_approve", waiting["number"], waiting["hash"])
        service.approver("alice", "approvals_deny", waiting["number"])
        with pytest.raises(Refused, match="request denied: alice refused it"):
            answer()

        answer = service.in_background("payroll", "eth_sign", OWN, HELLO)
        waiting = service.waiting("bob")
        with pytest.raises(Refused, match="bob sent it"):
            service.approver("bob", "approvals_approve", waiting["number"], waiting["hash"])
        service.approver("bob", "approvals_deny", waiting["number"])
        with pytest.raises(Refused, match="bob refused it"):
            answer()
        assert not [step for step in service.steps() if step["step"] == "signed"]


def test_the_request_of_a_client_that_disconnects_is_removed(place):
    with SigningService(place, POLICY, SETTINGS) as service:
        connection = service.connect("payroll")
        connection.send("eth_sign", OWN, HELLO)
        waiting = service.waiting("alice")
        connection.close()
        until(lambda: not service.approver("alice", "approvals_list"))
        with pytest.raises(Refused, match="its client disconnected"):
            service.approver("alice", "approvals_approve", waiting["number"], waiting["hash"])
        until(lambda: service.steps()[-1]["step"] == "failed")


def until(question, seconds=30):
    end = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_new_policy_applies_to_waiting_requests_and_an_invalid_one_changes_nothing(place):
    with SigningService(place, POLICY, SETTINGS) as service:
        answer = service.in_background("payroll", "eth_sign", OWN, HELLO)
        waiting = service.waiting("alice")
        service.write_policy(POLICY.replace('"any"', '"anything"'))
        wrong = run("signer", "reload", "--socket", service.urls["approver alice"], check=False)
        assert wrong.returncode == 1 and "anything" in wrong.stderr
        service.call("payroll", "eth_signTransaction", transfer(0))

        service.write_policy("version = 1\n")
        checked = run("signer", "policy", "check", place / "policy.toml").stdout
        reloaded = run("signer", "reload", "--socket", service.urls["approver alice"]).stdout
        assert reloaded.removeprefix("policy ").strip() in checked
        service.approver("alice", "approvals_approve", waiting["number"], waiting["hash"])
        with pytest.raises(Refused, match="no rule allows it"):
            answer()
        with pytest.raises(Refused, match="no rule allows it"):
            service.call("payroll", "eth_signTransaction", transfer(1))
        assert [step["step"] for step in service.steps()].count("policy-applied") == 1

        (place / "next.toml").write_text(POLICY)
        (place / "wrong.toml").write_text("version = 3")
        options = ["--settings", place / "signer.toml", "--socket", service.urls["approver alice"]]
        wrong = run("signer", "policy", "apply", place / "wrong.toml", *options, check=False)
        assert wrong.returncode == 2 and (place / "policy.toml").read_text() == "version = 1\n"
        assert run("signer", "policy", "apply", place / "next.toml", *options).stdout.startswith("policy 0x")
        service.call("payroll", "eth_signTransaction", transfer(2))
        assert not list(place.glob(".policy-*"))


def test_the_service_has_no_access_that_it_does_not_need(place):
    listener = socket.create_server(("127.0.0.1", 0))
    address = "{}:{}".format(*listener.getsockname())
    with SigningService(place, POLICY, SETTINGS, TENON_TEST_SIGNER_INTRUDES=address) as service:
        status = open(f"/proc/{service.process.pid}/status").read()
        outcomes = dict(
            line.removeprefix("intrusion ").split(": ") for line in service.errors().splitlines() if line.startswith("intrusion ")
        )
        assert service.call("payroll", "eth_accounts")
    listener.close()
    assert "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status
    if not outcomes:
        pytest.skip("a release does not try to break out")
    kept = [name for name, outcome in outcomes.items() if outcome == "DONE"]
    assert kept == ["own policy read", "own log read"] and len(outcomes) == 16
    assert not (place / "intruder").exists()


def test_two_services_do_not_share_a_folder_and_a_changed_log_is_not_used(place):
    with SigningService(place, POLICY, SETTINGS) as service:
        second = run("signer", "run", place / "signer.toml", check=False)
        assert second.returncode == 3 and "another signing service" in second.stderr
        service.call("payroll", "eth_signTransaction", transfer(0))
    log = next((place / "log").glob("audit-*.jsonl"))
    log.write_text(log.read_text().replace('"nonce":0', '"nonce":9'))
    changed = run("signer", "run", place / "signer.toml", check=False)
    assert changed.returncode == 3 and ", line 4: " in changed.stderr


def test_its_files_are_accessible_only_to_the_owner(place):
    with SigningService(place, POLICY, SETTINGS) as service:
        service.call("payroll", "eth_signTransaction", transfer(0))
        modes = {path: path.stat().st_mode for path in [place / "log", *place.glob("log/*"), *place.glob("*.sock")]}
    for path, mode in modes.items():
        assert stat.S_IMODE(mode) & 0o077 == 0, path
    assert len(modes) >= 8


def test_a_log_that_cannot_grow_ends_signing(place):
    with SigningService(place, POLICY, SETTINGS) as service:
        service.call("payroll", "eth_signTransaction", transfer(0))
        size = next((place / "log").glob("audit-*.jsonl")).stat().st_size
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (size + 300, resource.RLIM_INFINITY))
        for nonce in (1, 2):
            with pytest.raises(Refused, match="cannot use the audit log, so nothing is signed"):
                service.call("payroll", "eth_signTransaction", transfer(nonce))
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        # The end of the file is unknown until the service has read it again.
        with pytest.raises(Refused, match="restart the service"):
            service.call("payroll", "eth_signTransaction", transfer(3))
        service.stop()
        service.start()
        service.call("payroll", "eth_signTransaction", transfer(1))


def test_it_does_not_start_with_fewer_open_files_than_its_connections_may_use(place):
    few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))}
    with pytest.raises(AssertionError, match="may have 100 files open, but needs 192 with these settings; raise the limit"):
        SigningService(place, POLICY, SETTINGS, options=few)
    # A lower soft limit suffices if the process may raise it.
    raised = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 192))}
    with SigningService(place, POLICY, SETTINGS, options=raised) as service:
        service.call("payroll", "eth_signTransaction", transfer(0))


def test_clients_that_flood_and_leave_use_bounded_resources(place):
    with SigningService(place, POLICY, SETTINGS) as service:
        connections = []
        for _ in range(40):
            with contextlib.suppress(OSError):
                connection = service.connect("payroll")
                for _ in range(8):
                    connection.send("eth_sign", OWN, HELLO)
                connections.append(connection)
        until(lambda: len(service.approver("alice", "approvals_list")) == 16)
        # Another client and an approver are still served.
        answer = service.in_background("alice", "eth_sign", OWN, HELLO)
        until(lambda: any(waiting["client"] == "alice" for waiting in service.approver("bob", "approvals_list")))
        asked = next(waiting for waiting in service.approver("bob", "approvals_list") if waiting["client"] == "alice")
        service.approver("bob", "approvals_approve", asked["number"], asked["hash"])
        assert answer()
        for connection in connections:
            connection.close()
        until(lambda: not service.approver("alice", "approvals_list"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"jsonrpc":"2.0"}', "\x00\xff" * 100, "[" * 5000, '"' + "x" * 3_000_000])
def test_invalid_bytes_are_refused_and_other_clients_are_served(place_of_all, text):
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(20)
        stream.connect(place_of_all.urls["client payroll"])
        with contextlib.suppress(OSError):
            stream.sendall(text.encode("utf-8", "surrogateescape"))
            stream.shutdown(socket.SHUT_WR)
            while stream.recv(65536):
                pass
    assert place_of_all.call("payroll", "eth_accounts")


@pytest.fixture(scope="module")
def place_of_all():
    with folder() as path, SigningService(path, POLICY, SETTINGS) as service:
        yield service


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("version = 1", "version = 2"), "reads version 1"),
        (('log = "log"', 'log = "log"\ncolour = 1'), "unknown field `colour`"),
        (('policy = "policy.toml"', 'policy = "none.toml"'), "none.toml"),
        (('unlock = ["', 'unlock = ["0x00000000000000000000000000000000000000AA", "'), "`unlock`: 0x"),
        (("[clients.payroll]", "[http]\naddress = '0.0.0.0:0'\n[clients.payroll]"), "can be reached from other machines"),
        (('socket = "payroll.sock"', 'token = "token"'), "need `[http]`"),
    ],
)
def test_invalid_settings_are_named(place, change, words):
    with SigningService(place, POLICY, SETTINGS):
        pass
    path = place / "signer.toml"
    assert change[0] in path.read_text()
    path.write_text(path.read_text().replace(*change))
    refused = run("signer", "run", path, check=False)
    assert refused.returncode == 2 and words in refused.stderr, refused.stderr


def test_a_program_approves_and_refuses(place):
    program = place / "decide"
    program.write_text("#!/bin/sh\nread line\ntest \"$#$1$2\" = \"2--first-x y\" || exit 9\necho \"$line\" >> \"$0.seen\"\ncase \"$line\" in *hello*) exit 0;; *) exit 1;; esac\n")
    program.chmod(0o700)
    settings = SETTINGS + f'[program]\ncommand = ["{program}", "--first", "-x y"]\n'
    with SigningService(place, POLICY, settings) as service:
        signature = service.call("payroll", "eth_sign", OWN, HELLO)
        assert Account.recover_message(encode_defunct(b"hello"), signature=signature) == OWN
        with pytest.raises(Refused, match="the program refused it"):
            service.call("payroll", "eth_sign", OWN, "0x00")
        # With another exit code the program decides nothing, and the request waits for a person.
        program.write_text("#!/bin/sh\nexit 3\n")
        answer = service.in_background("payroll", "eth_sign", OWN, HELLO)
        waiting = service.waiting("alice")
        time.sleep(0.5)
        # The helper gets the program's command at the start; no request can name another one.
        children = pathlib.Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
        helper = pathlib.Path(f"/proc/{children[0]}/cmdline").read_text().split("\0")
        assert helper[-4:-1] == [str(program), "--first", "-x y"]
        service.approver("alice", "approvals_approve", waiting["number"], waiting["hash"])
        assert answer()
        by = [step["by"] for step in service.steps() if step["step"] == "approved"]
    assert by == ["the program", "alice"]
    seen = json.loads((place / "decide.seen").read_text().splitlines()[0])
    assert seen["client"] == "payroll" and seen["presentation"]["title"] == "Sign a message"


def certificates(place):
    """An authority; certificates of the service and of a client; and a stranger's certificate by another authority."""

    def openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, cwd=place)

    for name in ("authority", "others"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")  # fmt: skip
    (place / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name, by in (("service", "authority"), ("client", "authority"), ("unnamed", "authority"), ("stranger", "others")):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-CAcreateserial",
                "-days", "2", "-extfile", "names", "-out", f"{name}.pem")  # fmt: skip


def test_https_identifies_a_client_by_its_certificate(place):
    certificates(place)
    settings = SETTINGS.replace('socket = "payroll.sock"', 'certificate = "client.pem"')
    settings += '[http]\naddress = "127.0.0.1:0"\ncertificate = "service.pem"\nkey = "service.key"\nauthority = "authority.pem"\n'
    with SigningService(place, POLICY, settings) as service:
        address = service.urls["http"].removeprefix("https://")

        def ask(name):
            context = ssl.create_default_context(cafile=str(place / "authority.pem"))
            if name:
                context.load_cert_chain(place / f"{name}.pem", place / f"{name}.key")
            connection = http.client.HTTPSConnection(address, timeout=30, context=context)
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_signTransaction", "params": [transfer(0)]})
            connection.request("POST", "/", body)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        status, text = ask("client")
        assert status == 200 and "raw" in json.loads(text)["result"]
        assert ask("unnamed")[0] == 401
        for name in ("stranger", None):
            with pytest.raises((ssl.SSLError, OSError)):
                ask(name)
        plain = http.client.HTTPConnection(address, timeout=30)
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.request("GET", "/upcheck")
            plain.getresponse()
        assert [step["client"] for step in service.steps() if step["step"] == "asked"] == ["payroll"]


def test_silent_connections_over_http_do_not_keep_a_client_out(place):
    token = "token-of-a-test-with-32-characters"
    (place / "token").write_text(token)
    (place / "token").chmod(0o600)
    settings = SETTINGS.replace('socket = "payroll.sock"', 'token = "token"') + '[http]\naddress = "127.0.0.1:0"\n'
    with SigningService(place, POLICY, settings) as service:
        host, port = service.urls["http"].removeprefix("http://").split(":")
        silent = [socket.create_connection((host, int(port)), source_address=("127.0.0.2", 0)) for _ in range(400)]
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        for nonce in range(3):
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_signTransaction", "params": [transfer(nonce)]})
            connection.request("POST", "/", body, {"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            assert answer.status == 200 and "raw" in json.loads(answer.read())["result"]
        # Unauthenticated connections beyond 256 are closed, the oldest first.
        poller = select.poll()
        for stream in silent:
            poller.register(stream, select.POLLIN)
        while len(poller.poll(30_000)) < 400 - 256:
            time.sleep(0.05)
        # A client may have 32 connections.
        answers = []
        mine = [http.client.HTTPConnection(host, int(port), timeout=30) for _ in range(40)]
        for own in mine:
            own.request("GET", "/api/v1/eth1/publicKeys", headers={"Authorization": f"Bearer {token}"})
            answer = own.getresponse()
            answer.read()
            answers.append(answer.status)
        assert answers.count(200) == 31 and answers.count(429) == 9


KILLS = kills(5)


def test_after_a_kill_every_signature_is_in_the_log_and_still_counts(place, dice):
    """Several clients send requests at once, and the service is killed at any moment."""
    policy = POLICY.replace("max-requests-in-window = 40", "max-requests-in-window = 100000")
    service = SigningService(place, policy, "requests-per-minute = 1000000\n" + SETTINGS)
    received, nonces = {}, iter(range(10**9))
    lock = threading.Lock()

    def client():
        with contextlib.suppress(OSError, ConnectionError, ValueError), service.connect("payroll") as connection:
            while True:
                with lock:
                    nonce = next(nonces)
                signed = connection.call("eth_signTransaction", transfer(nonce, value=1))
                with lock:
                    received[nonce] = signed["tx"]["hash"]

    for _ in range(KILLS):
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            clients = [threads.submit(client) for _ in range(4)]
            time.sleep(dice.random() * 0.3)
            service.kill()
            for done in clients:
                done.result()
        run("signer", "audit", "verify", place / "log")
        logged = {step["nonce"] for step in service.steps() if step["step"] == "signed-transaction"}
        assert set(received) <= logged
        service.start()
        for nonce in dice.sample(sorted(logged), min(3, len(logged))):
            with pytest.raises(Refused, match="another transaction was signed|no rule allows"):
                service.call("payroll", "eth_signTransaction", transfer(nonce, value=2))
    # The window counts everything that was signed before the kills.
    signed = sum(step["step"] == "signed-transaction" for step in service.steps())
    service.write_policy(POLICY.replace("max-requests-in-window = 40", f"max-requests-in-window = {signed + 1}"))
    service.approver("alice", "policy_reload")
    service.call("payroll", "eth_signTransaction", transfer(10**9))
    with pytest.raises(Refused, match="no rule allows it"):
        service.call("payroll", "eth_signTransaction", transfer(10**9 + 1))
    assert service.stop() == 0


def test_an_incomplete_line_is_not_exported_and_is_removed_at_the_next_start(place):
    with SigningService(place, POLICY, SETTINGS) as service:
        service.call("payroll", "eth_signTransaction", transfer(0))
    log = next((place / "log").glob("audit-*.jsonl"))
    whole = log.read_bytes()
    with open(log, "ab") as torn:
        torn.write(b'{"number":5,"time":17')
    assert run("signer", "audit", "export", place / "log").stdout.encode() == whole
    assert "incomplete" in run("signer", "audit", "verify", place / "log").stdout
    service.start()
    assert service.stop() == 0
    assert log.read_bytes().startswith(whole) and b'"time":17\n' not in log.read_bytes()
    assert "unchanged" in run("signer", "audit", "verify", place / "log").stdout


def test_files_that_others_can_change_or_read_are_not_used(place):
    (place / "interface.json").write_text("[]")
    (place / "decide").write_text("#!/bin/sh\nexit 1\n")
    (place / "decide").chmod(0o700)
    settings = SETTINGS.replace('"alice.sock"', '"sockets/alice.sock"') + f'[program]\ncommand = ["{place / "decide"}"]\n'
    with SigningService(place, POLICY + '[interfaces.none]\nfile = "interface.json"\n', settings):
        assert stat.S_IMODE((place / "sockets").stat().st_mode) == 0o700
    for path, mode, reason in [
        ("policy.toml", 0o666, "others can change it"),
        ("signer.toml", 0o660, "others can change it"),
        ("interface.json", 0o664, "others can change it"),
        ("decide", 0o777, "others can change it"),
        (".", 0o770, "others can change it"),
        ("passwords", 0o644, "others can read it"),
        ("keystore", 0o777, "others can change it"),
        ("sockets", 0o777, "others can change it"),
        ("log/audit.key", 0o640, "audit.key: others can read it"),
        ("log", 0o777, "log: others can change it"),
    ]:
        before = (place / path).stat().st_mode
        (place / path).chmod(mode)
        ended = run("signer", "run", place / "signer.toml", check=False)
        assert ended.returncode in (2, 3) and reason in ended.stderr, (path, ended.returncode, ended.stderr)
        (place / path).chmod(before)
    if os.geteuid() != 0:
        return
    for path in ("policy.toml", "signer.toml", "interface.json", ".", "keystore", "passwords", "log", "log/audit.key", "log/lock"):
        os.chown(place / path, 65534, -1)
        ended = run("signer", "run", place / "signer.toml", check=False)
        assert ended.returncode in (2, 3) and "belongs to another user" in ended.stderr, (path, ended.stderr)
        os.chown(place / path, 0, -1)


def test_a_client_that_asks_the_program_and_leaves_delays_no_other(place):
    program = place / "decide"
    program.write_text("#!/bin/sh\nread line\necho \"$line\" >> \"$0.seen\"\nsleep 1\nexit 0\n")
    program.chmod(0o700)
    policy = POLICY.replace('"payroll", "alice"', '"payroll", "alice", "bob"')
    settings = SETTINGS.replace("[clients.alice]", '[clients.bob]\nsocket = "asks-bob.sock"\n[clients.alice]')
    settings += f'[program]\ncommand = ["{program}"]\n'
    with SigningService(place, policy, "requests-per-minute = 100000\n" + settings) as service:
        for _ in range(80):
            with service.connect("payroll") as connection:
                for _ in range(8):
                    connection.send("eth_sign", OWN, HELLO)
                until(lambda: service.approver("alice", "approvals_list"))
            until(lambda: not service.approver("alice", "approvals_list"))
        threads = len(os.listdir(f"/proc/{service.process.pid}/task"))
        assert threads < 40, threads
        # The rest of the service works, and the program answers another client next.
        begun = time.monotonic()
        service.call("payroll", "eth_signTransaction", transfer(0))
        assert service.call("bob", "eth_sign", OWN, HELLO)
        assert time.monotonic() - begun < 20
        # The program never received requests that had ended before their turn.
        asked = [json.loads(line) for line in (place / "decide.seen").read_text().splitlines()]
        assert len(asked) < 100 and asked[-1]["client"] == "bob"


def test_only_permitted_clients_can_reload_the_policy_over_http(place):
    tokens = {name: f"token-of-{name}-with-32-characters-or-more" for name in ("web", "deploy")}
    settings = SETTINGS + '[http]\naddress = "127.0.0.1:0"\n'
    for name, token in tokens.items():
        (place / name).write_text(token)
        (place / name).chmod(0o600)
        settings += f'[clients.{name}]\ntoken = "{name}"\n'
    with SigningService(place, POLICY, settings + "reload = true\n") as service:

        def reload(name):
            connection = http.client.HTTPConnection(service.urls["http"].removeprefix("http://"), timeout=60)
            with contextlib.closing(connection):
                connection.request("POST", "/reload", headers={"Authorization": f"Bearer {tokens[name]}"})
                answer = connection.getresponse()
                return answer.status, answer.read().decode()

        service.write_policy("version = 1\n")
        status, words = reload("web")
        assert status == 403 and "`reload = true`" in words
        assert service.call("payroll", "eth_signTransaction", transfer(0))
        assert reload("deploy")[0] == 200
        with pytest.raises(Refused, match="no rule allows it"):
            service.call("payroll", "eth_signTransaction", transfer(1))


def test_removing_the_log_of_a_running_service_ends_signing(place):
    with SigningService(place, POLICY, SETTINGS) as service:
        assert service.call("payroll", "eth_signTransaction", transfer(0))
        [log] = (place / "log").glob("audit-*.jsonl")
        log.unlink()
        with pytest.raises(Refused, match="removed or changed while the service runs"):
            service.call("payroll", "eth_signTransaction", transfer(1))


def test_an_answer_may_be_longer_than_its_request(place):
    with SigningService(place, POLICY, SETTINGS) as service:
        transaction = transfer(0) | {"accessList": [{"address": FRIEND, "storageKeys": [f"0x{n:064x}" for n in range(8_000)]}]}
        transaction |= {"gas": hex(20_000_000)}
        signed = service.call("payroll", "eth_signTransaction", transaction)
        assert len(json.dumps(signed)) > 1 << 20
