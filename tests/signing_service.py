"""Starts the real signing service for a test: key files, a policy, clients and approvers in a folder."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

from tenon_node import BINARY, run

# The first three accounts of the mnemonic that development networks share.
KEYS = {
    "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266": "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "0x70997970C51812dc3A010C7d01b50e0d17dc79C8": "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC": "5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
}
OWN, OTHER, VALIDATOR = KEYS
PASSWORD = "only in tests"
# The calls of a token that policies name.
INTERFACE = [
    {
        "type": "function",
        "name": name,
        "stateMutability": "nonpayable",
        "outputs": [],
        "inputs": [{"name": first, "type": "address"}, {"name": "amount", "type": "uint256"}],
    }
    for name, first in (("transfer", "to"), ("approve", "spender"))
]


class Refused(Exception):
    """The error object of an answer."""


class Connection:
    """A connection to a socket of the service."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(path))
        self.reader = self.socket.makefile()
        self.last = 0

    def close(self):
        self.reader.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, method, *params):
        self.last += 1
        request = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": list(params)}
        self.socket.sendall((json.dumps(request) + "\n").encode())

    def receive(self):
        line = self.reader.readline()
        if not line:
            raise ConnectionError("the service closed the connection")
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"]["message"])
        return answer["result"]

    def call(self, method, *params):
        self.send(method, *params)
        return self.receive()


class SigningService:
    """`tenon signer run`, with the keys above in light key files."""

    def __init__(self, place, policy, settings="", keys=KEYS, udp=(), options=None, password=PASSWORD, **variables):
        self.place = pathlib.Path(place)
        self.variables, self.options = variables, options or {}
        self.write_policy(policy)
        (self.place / "passwords").write_text(password)
        (self.place / "passwords").chmod(0o600)
        keystore = self.place / "keystore"
        if not keystore.exists():
            keystore.mkdir()
            for key in keys.values():
                (self.place / "key").write_text(key)
                files = "--keystore", keystore, "--password", self.place / "passwords"
                run("account", "import", self.place / "key", "--datadir", self.place / "data", "--lightkdf", *files)
        unlock = json.dumps(list(keys))
        first = f'version = 1\npolicy = "policy.toml"\nlog = "log"\nkeystore = "keystore"\npasswords = "passwords"\nunlock = {unlock}\nudp = {json.dumps(list(udp))}\n'
        (self.place / "signer.toml").write_text(first + settings)
        self.start()

    def write_policy(self, policy):
        (self.place / "policy.toml").write_text(policy)

    def start(self):
        command = [str(BINARY), "signer", "run", str(self.place / "signer.toml")]
        self.log = open(self.place / "service.log", "ab")
        environment = os.environ | self.variables
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment, **self.options)
        self.urls = {}
        for line in self.process.stdout:
            if line == "ready\n":
                return
            name, url = line.rsplit("  ", 1)
            self.urls[name] = url.strip()
        self.process.wait()
        raise AssertionError(f"the service did not start:\n{self.errors()[-4000:]}")

    def errors(self):
        return (self.place / "service.log").read_text(errors="replace")

    def connect(self, client):
        return Connection(self.urls[f"client {client}"])

    def call(self, client, method, *params):
        with self.connect(client) as connection:
            return connection.call(method, *params)

    def approver(self, name, method, *params):
        with Connection(self.urls[f"approver {name}"]) as connection:
            return connection.call(method, *params)

    def in_background(self, client, method, *params):
        """Sends the request on a thread. Returns a function that waits for the answer, or raises the refusal."""
        outcome = []

        def ask():
            try:
                outcome.append(self.call(client, method, *params))
            except (Refused, OSError) as error:
                outcome.append(error)

        thread = threading.Thread(target=ask)
        thread.start()

        def answer():
            thread.join(60)
            if isinstance(outcome[0], Exception):
                raise outcome[0]
            return outcome[0]

        return answer

    def waiting(self, name):
        """The first request that waits for an approver."""
        end = time.monotonic() + 30
        while not (waiting := self.approver(name, "approvals_list")):
            assert time.monotonic() < end
            time.sleep(0.02)
        return waiting[0]

    def steps(self):
        """The entries of the log, after verifying it."""
        lines = run("signer", "audit", "export", self.place / "log").stdout.splitlines()
        return [json.loads(line)["entry"] for line in lines]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        self.log.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            assert self.stop() == 0, self.errors()
