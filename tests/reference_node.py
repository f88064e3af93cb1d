"""A running node of the reference client: `TENON_REFERENCE=PATH` names its binary (v2.7.0).

It runs a private chain, and knows no nodes but those of the test."""

import http.client
import json
import os
import pathlib
import socket
import subprocess
import time

REFERENCE = os.environ.get("TENON_REFERENCE")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(what, is_wanted, seconds=60):
    """Polls until the answer is the expected one, and returns it."""
    deadline = time.monotonic() + seconds
    while True:
        answer = what()
        if is_wanted(answer):
            return answer
        assert time.monotonic() < deadline, f"still {answer}"
        time.sleep(0.05)


class Reference:
    """A running reference node. Its folder's path must be short, because it calls itself over its Unix socket while it
    imports."""

    def __init__(self, path, genesis, *arguments, namespaces="admin,eth,net"):
        if not (path / "XDC" / "chaindata").exists():
            subprocess.run([REFERENCE, "init", "--datadir", path, genesis], check=True, capture_output=True)
        self.log = open(path / "log", "ab")
        network = json.loads(pathlib.Path(genesis).read_text())["config"]["chainId"]
        flags = ["--datadir", path, "--networkid", network, "--syncmode", "full", "--gcmode", "archive", "--nat", "none"]
        flags += ["--http-addr", "127.0.0.1", "--http-api", namespaces, "--ws=false", "--cache", "128", *arguments]
        self.begun_with = (path, genesis, *arguments)
        self.connection = None
        # Another process may take a port before the node listens on it.
        for attempt in range(5):
            self.port, self.http = free_port(), free_port()
            ports = ["--port", self.port, "--http-port", self.http]
            begun = (path / "log").stat().st_size
            self.process = subprocess.Popen([REFERENCE, *map(str, [*flags, *ports])], stdout=self.log, stderr=self.log)
            try:
                wait_for(self.is_up, bool)
                return
            except AssertionError:
                said = (path / "log").read_bytes()[begun:].decode(errors="replace")
                if attempt == 4 or "address already in use" not in said:
                    raise

    def again(self):
        """Starts the same node again after its end, on other ports."""
        self.end()
        return Reference(*self.begun_with)

    def is_up(self):
        self.check()
        try:
            return self.call("net_version")
        except OSError:
            return None

    def check(self):
        assert self.process.poll() is None, pathlib.Path(self.log.name).read_text(errors="replace")[-3000:]

    def raw(self, text):
        """The answer's text. The reference closes connections that are idle for minutes: then another one is tried."""
        self.check()
        for attempt in (1, 2):
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=60)
            try:
                self.connection.request("POST", "/", text, {"Content-Type": "application/json"})
                return self.connection.getresponse().read().decode()
            except (OSError, http.client.HTTPException):
                self.connection.close()
                self.connection = None
                if attempt == 2:
                    raise

    def call(self, method, *params):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        answer = json.loads(self.raw(json.dumps(request)))
        assert "error" not in answer, answer
        return answer["result"]

    def enode(self):
        return f"enode://{self.call('admin_nodeInfo')['id']}@127.0.0.1:{self.port}"

    def head(self):
        return self.call("eth_getBlockByNumber", "latest", False)["hash"]

    def kill(self):
        """Ends it without notice, as a power failure would."""
        self.process.kill()
        self.end()

    def end(self):
        if self.connection is not None:
            self.connection.close()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
