"""Starts the real program for a test and talks to it: the common harness of the Python suites."""

import contextlib
import gzip
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
BINARY = pathlib.Path(os.environ.get("TENON_BIN", ROOT / "dist" / "tenon"))
# The well-known mnemonic of development networks.
DEVELOPMENT_MNEMONIC = "test test test test test test test test test test test junk"


def list_built_in_plugins():
    """Lists the plugins of a cargo build next to the program, as `make` does for a release: unlisted ones would be
    foreign."""
    if BINARY.exists() and not (BINARY.parent / "plugins").is_dir():
        subprocess.run([str(ROOT / "scripts" / "list-plugins.sh"), str(BINARY.parent)], check=True)


list_built_in_plugins()


@contextlib.contextmanager
def folder(prefix="tenon-test-"):
    """A new folder that is removed afterwards."""
    path = pathlib.Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def run(*arguments, check=True, timeout=300, **options):
    """Runs `tenon ARGUMENTS` to its end."""
    done = subprocess.run([str(BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=timeout, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"tenon {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done


class RpcError(Exception):
    """The error object of an answer."""

    def __init__(self, error):
        # Over HTTP an error of the front-end itself is a text.
        super().__init__(error if isinstance(error, str) else f"{error.get('code')}: {error.get('message')}")
        self.error = error


class Node:
    """A running `tenon dev` or `tenon run` on ports chosen by the system; `options` are those of `Popen`."""

    def __init__(self, *arguments, datadir=None, start_timeout=60, **options):
        self._own_folder = None
        if datadir is None:
            self._own_folder = pathlib.Path(tempfile.mkdtemp(prefix="tenon-node-"))
            datadir = self._own_folder / "data"
        self.datadir = pathlib.Path(datadir)
        endpoints = self.datadir / "endpoints.json"
        endpoints.unlink(missing_ok=True)
        self.log_path = self.datadir.parent / f"{self.datadir.name}.log"
        self._log = open(self.log_path, "ab")
        command = [str(BINARY), *map(str, arguments), "--datadir", str(self.datadir), "--http.port", "0", "--ws.port", "0"]
        streams = {"stdout": self._log, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, **(streams | options))
        deadline = time.monotonic() + start_timeout
        while not endpoints.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"{' '.join(command)} did not start:\n{self.log_path.read_text(errors='replace')[-4000:]}")
            time.sleep(0.01)
        self.endpoints = json.loads(endpoints.read_text())
        self.http_url, self.ws_url, self.ipc_path = (self.endpoints[name] for name in ("http", "ws", "ipc"))
        self._connection = None

    def raw(self, body, headers=None):
        """Posts a text and returns the answer's text."""
        host = self.http_url.removeprefix("http://").rstrip("/")
        for attempt in (1, 2):
            if self._connection is None:
                self._connection = http.client.HTTPConnection(host, timeout=60)
            try:
                self._connection.request("POST", "/", body, {"Content-Type": "application/json", **(headers or {})})
                return self._connection.getresponse().read().decode()
            except (http.client.HTTPException, OSError):
                self._connection.close()
                self._connection = None
                if attempt == 2:
                    raise

    def call(self, method, *params):
        """Calls a method over HTTP."""
        answer = json.loads(self.raw(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)})))
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def health(self):
        """Status and answer of GET /health."""
        connection = http.client.HTTPConnection(self.http_url.removeprefix("http://").rstrip("/"), timeout=60)
        try:
            connection.request("GET", "/health")
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def stop(self, timeout=30):
        """SIGTERM; returns the exit code."""
        self._disconnect()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        finally:
            self.kill()

    def kill(self):
        """kill -9."""
        self._disconnect()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()

    def _disconnect(self):
        connection, self._connection = getattr(self, "_connection", None), None
        if connection is not None:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)


def unpacked(path, target):
    """Unpacks a gzip file of the test data."""
    with gzip.open(path, "rb") as source, open(target, "wb") as sink:
        shutil.copyfileobj(source, sink)
    return target
