"""The compared servers, each pinned to the first core, and their use of the machine."""

import contextlib
import http.client
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "tenon"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", CACHE / "target"))
BENCH = pathlib.Path(os.environ.get("TENON_BENCH", TARGET / "release" / "tenon-bench"))
TENON = pathlib.Path(os.environ.get("TENON_BIN", ROOT / "dist" / "tenon"))
ANVIL = CACHE / "node" / "node_modules" / "@foundry-rs" / "anvil-linux-amd64" / "bin" / "anvil"
CONNECTIONS = 1_100
TICK = os.sysconf("SC_CLK_TCK")


def allow_many_files():
    """Raises the limit of open files as far as possible, for this process and its children: a thousand connections
    need them."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def pinned(core, command):
    """The command, pinned to a core if there are several."""
    return ["taskset", "-c", str(core), *command] if shutil.which("taskset") and os.cpu_count() > 1 else command


class Server:
    """A running server: its process, its name in tables, its metrics page if it serves one, and the `tenon-bench load`
    arguments of its endpoints."""

    def __init__(self, name, process, metrics=None, **endpoints):
        self.name, self.process, self.metrics, self.endpoints = name, process, metrics, endpoints

    def cpu_seconds(self):
        """Processor time used."""
        return cpu_seconds(self.process.pid)

    def settle(self, within=20):
        """Waits until the server has finished its work for clients that have left: the core belongs to the next server
        measured."""
        deadline = time.monotonic() + within
        used = self.cpu_seconds()
        while time.monotonic() < deadline:
            time.sleep(0.05)
            used, before = self.cpu_seconds(), used
            if used - before < 0.02:
                return

    def call(self, method, *params):
        """Calls a method over HTTP."""
        answer = self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)})
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {method}: {answer['error']}")
        return answer["result"]

    def post(self, request, timeout=60):
        """Sends a request or a batch over HTTP and returns the complete answer."""
        connection = http.client.HTTPConnection(self.endpoints["HTTP"][1], timeout=timeout)
        try:
            connection.request("POST", "/", json.dumps(request), {"Content-Type": "application/json"})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def status(pid):
    """Resident memory (MB), open files and threads of a process."""
    lines = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return {"rss": int(lines["VmRSS"].split()[0]) / 1024, "files": files, "threads": int(lines["Threads"])}


@contextlib.contextmanager
def running(command, core=0):
    """A child process; terminated at the end."""
    command = command if core is None else pinned(core, command)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def limit(folder):
    """A constant answer: hyper, and a bare Unix socket in `folder`."""
    path = folder / "limit.ipc"
    with running([str(BENCH), "limit", "--unix", str(path)]) as process:
        yield Server("limit", process, HTTP=["--http", process.stdout.readline().strip()], Unix=["--unix", str(path)])


@contextlib.contextmanager
def tenon(datadir, *arguments, core=0, program=TENON, command="dev"):
    """`tenon dev` (or another command) of a build; its log goes to a file next to the data folder, so that it never
    blocks on a pipe."""
    endpoints = datadir / "endpoints.json"
    endpoints.unlink(missing_ok=True)
    command = [str(program), command, "--datadir", str(datadir), "--http.port", "0", "--ws.port", "0", *arguments]
    command += [f"--{name}.connections={CONNECTIONS}" for name in ("http", "ws", "ipc")]
    command = command if core is None else pinned(core, command)
    with open(f"{datadir}.log", "ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        while not endpoints.exists():
            if process.poll() is not None:
                raise SystemExit(f"tenon ended:\n{pathlib.Path(log.name).read_text(errors='replace')[-2000:]}")
            time.sleep(0.002)
        found = json.loads(endpoints.read_text())
        address = lambda url: url.split("://", 1)[1].rstrip("/")
        yield Server(
            "Tenon",
            process,
            found.get("metrics"),
            HTTP=["--http", address(found["http"])],
            WebSocket=["--ws", address(found["ws"])],
            Unix=["--unix", found["ipc"]],
        )
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def anvil(*arguments, core=0):
    """anvil, silent, because it would log every request otherwise."""
    port = free_port()
    with running([str(ANVIL), "--port", str(port), "--host", "127.0.0.1", "--silent", *arguments], core) as process:
        wait_for_port(process, port)
        address = f"127.0.0.1:{port}"
        yield Server("anvil", process, HTTP=["--http", address], WebSocket=["--ws", address])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(process, port):
    while process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.002)
    raise SystemExit(f"{process.args} ended with {process.returncode}")


def load(server, transport, request, connections, seconds, core=1):
    """Runs the load against an endpoint. `None` if the server answers with an error; the reason goes to stderr."""
    command = [str(BENCH), "load", *server.endpoints[transport], "--body", json.dumps(request)]
    command += ["--connections", str(connections), "--seconds", str(seconds)]
    server.settle()
    before = server.cpu_seconds()
    begun = time.monotonic()
    done = subprocess.run(pinned(core, command), capture_output=True, text=True)
    if done.returncode:
        return {"failure": done.stderr.strip()[:300]}
    result = json.loads(done.stdout)
    # Includes the warm-up, assuming the measured rate.
    requests = result["per_second"] * (time.monotonic() - begun)
    server.settle()
    result["cpu_micros"] = round((server.cpu_seconds() - before) / requests * 1e6, 1) if requests else None
    return result
