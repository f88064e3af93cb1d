"""A node's use of resources, and the effects on other clients, during an attack or fault."""

import contextlib
import multiprocessing
import time
from pathlib import Path

import wire

def memory(pid):
    """Resident memory, MB."""
    return _status(pid, "VmRSS")


def peak_memory(pid):
    """Peak resident memory since the last `forget_peak`, MB."""
    return _status(pid, "VmHWM")


def forget_peak(pid):
    """Resets the peak."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _status(pid, name):
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines[name].split()[0]) / 1024


def is_at_work(pid):
    """Returns whether any thread of the process is runnable, even if it has no core on a busy machine."""
    for status in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            if status.read_text().rsplit(")", 1)[1].split()[0] == "R":
                return True
    return False


def processor_milliseconds(pid):
    """Processor time used by the process, which other load on the machine hardly changes."""
    # The system's id of another process's clock (MAKE_PROCESS_CPUCLOCK, CPUCLOCK_SCHED).
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e6


def busy_within(pid, seconds):
    """Returns whether the process works continuously: 30 samples in a row."""
    return _steady(pid, seconds, 30, True) is not None


def idle_after(pid, seconds):
    """Seconds until the process is idle: 10 samples in a row, 2 ms apart. `None` if not in that time."""
    return _steady(pid, seconds, 10, False)


def _steady(pid, seconds, looks, expected):
    begun = time.monotonic()
    since, count = begun, 0
    while (now := time.monotonic()) - begun < seconds:
        if is_at_work(pid) == expected:
            since = since if count else now
            count += 1
            if count == looks:
                return since - begun
        else:
            count = 0
        time.sleep(0.002)
    return None


def files_back(pid, most, within=15):
    """Returns whether the node soon has at most this many open files, and how many it has."""
    deadline = time.monotonic() + within
    while (count := wire.open_files(pid)) > most and time.monotonic() < deadline:
        time.sleep(0.05)
    return count


class Endpoints:
    """The addresses of a node, for another process."""

    def __init__(self, node):
        self.http_url, self.ws_url, self.ipc_path = node.http_url, node.ws_url, node.ipc_path


def _probe(endpoints, served, stop, results):
    latencies, failures = [], 0
    text = wire.request("eth_blockNumber")
    connections = {}
    while not stop.is_set():
        for kind in (wire.Http, wire.UnixSocket):
            begun = time.monotonic()
            try:
                if kind not in connections:
                    connections[kind] = kind(endpoints, timeout=60)
                assert wire.code_of(wire.ask(connections[kind], text)) == (0, "")
                latencies.append((time.monotonic() - begun) * 1000)
                served.set()
            except (wire.Hung, TimeoutError, AssertionError, OSError, ValueError):
                failures += 1
                connections.pop(kind, None)
        time.sleep(0.003)
    results.put((latencies, failures))


@contextlib.contextmanager
def other_clients(node):
    """A well-behaved client in a process of its own, on HTTP and the Unix socket; returns a function for its
    figures."""
    context = multiprocessing.get_context("fork")
    served, stop, results = context.Event(), context.Event(), context.SimpleQueue()
    process = context.Process(target=_probe, args=(Endpoints(node), served, stop, results), daemon=True)
    process.start()
    # The following work may be over before a slow machine has started a process.
    assert served.wait(60), "another client is not served at all"
    found = []

    def figures():
        if not found:
            stop.set()
            found.append(results.get())
            process.join(30)
        latencies, failures = found[0]
        latencies.sort()
        at = lambda percent: latencies[min(len(latencies) * percent // 100, len(latencies) - 1)]
        return {"answers": len(latencies), "failures": failures, "p50": at(50), "p99": at(99)}

    try:
        yield figures
    finally:
        stop.set()
        if not found:
            process.kill()


def quiet(node, seconds=1.0):
    """The figures of such a client without any other load."""
    with other_clients(node) as figures:
        time.sleep(seconds)
        return figures()
