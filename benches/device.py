#!/usr/bin/env python3
"""Measures how a hardware wallet affects the node, with the project's simulator.

growth    how much the p99 of a read over HTTP grows while the wallet signs without a pause, while it waits for a person,
          and while signing clients disconnect at every step; rounds alternate, and the median counts
exchange  time of one exchange with the wallet, including both sides and the system's datagrams: what a signing takes for
          each kilobyte of data beyond the first
decision  the signing service's decision with 10,000 rules (criterion)

  benches/device.py [--seconds 2] [--rounds 5]
"""

import argparse
import contextlib
import http.client
import json
import pathlib
import re
import statistics
import tempfile
import threading
import time

import criterion
import servers
from targets import Target, report_targets

PATH = "m/44'/60'/0'/0/0"
DECISIONS = ("decide, 10,000 rules, by recipient", "decide, 10,000 rules, by client only")
CHUNK, CHUNKS, SIGNINGS = 1_024, 64, 15
NAMESPACES = ["--http.api", "eth,personal", "--auth.namespaces", ""]


@contextlib.contextmanager
def simulated(*arguments):
    """Starts a simulated wallet; yields its UDP address."""
    command = [str(servers.TENON), "device", "simulate", "--model", "t-later", "--port", "0", *arguments]
    with servers.running(command, core=None) as process:
        yield re.search(r"udp:(\S+)", process.stdout.readline())[1]


def opened(server, address):
    """Waits until the wallet is open, and returns its first account."""
    url, deadline = f"trezor://udp:{address}", time.monotonic() + 60
    while not any(wallet["url"] == url and wallet["status"].endswith("online") for wallet in server.call("personal_listWallets")):
        if time.monotonic() > deadline:
            raise SystemExit(f"{url} was not opened")
        time.sleep(0.05)
    return server.call("personal_deriveAccount", url, PATH, True)["address"]


def transaction(account, data=b""):
    members = {"nonce": "0x0", "gas": "0x5208", "gasPrice": "0x1", "to": account, "value": "0x0", "data": "0x" + data.hex()}
    return {"from": account, **members}


def sign(server, account, data=b""):
    begun = time.perf_counter()
    server.call("eth_signTransaction", transaction(account, data))
    return time.perf_counter() - begun


def leave(server, account, seconds):
    """Requests a signature of four kilobytes, and disconnects after this many seconds."""
    connection = http.client.HTTPConnection(server.endpoints["HTTP"][1], timeout=max(seconds, 0.001))
    body = {"jsonrpc": "2.0", "id": 1, "method": "eth_signTransaction", "params": [transaction(account, bytes(4 * CHUNK))]}
    with contextlib.suppress(OSError):
        connection.request("POST", "/", json.dumps(body), {"Content-Type": "application/json"})
        connection.getresponse().read()
    connection.close()


@contextlib.contextmanager
def repeating(what):
    """Repeats something on a thread of its own."""
    stopped = threading.Event()

    def run():
        while not stopped.is_set():
            what()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def p99(server, seconds):
    """The 99th percentile of reads on eight connections, in milliseconds."""
    read = {"jsonrpc": "2.0", "id": 1, "method": "eth_getBlockByNumber", "params": ["latest", False]}
    return servers.load(server, "HTTP", read, 8, seconds)["p99_micros"] / 1_000


def growth(arguments, folder):
    """The growth of p99 in milliseconds, for each use of a wallet."""
    steps = iter(range(1_000_000_000))
    ready = {
        "signs": lambda server, account: sign(server, account, bytes(4 * CHUNK)),
        "leaves": lambda server, account: leave(server, account, 0.002 * (next(steps) % 10)),
    }
    thinking = {"waits": lambda server, account: leave(server, account, arguments.seconds)}
    return grown(arguments, folder / "ready", ready) | grown(arguments, folder / "asked", thinking, "--approve", "asked")


def grown(arguments, folder, uses, *how):
    found = {name: [] for name in uses}
    with simulated(*how) as address, servers.tenon(folder, "--device.enabled", "--device.udp", address, *NAMESPACES) as server:
        account = opened(server, address)
        for _ in range(arguments.rounds):
            for name, use in uses.items():
                quiet = p99(server, arguments.seconds)
                with repeating(lambda: use(server, account)):  # noqa: B023
                    found[name].append(p99(server, arguments.seconds) - quiet)
    return {name: statistics.median(values) for name, values in found.items()}


def exchange(folder):
    """Milliseconds per exchange."""
    with simulated() as address, servers.tenon(folder / "exchange", "--device.enabled", "--device.udp", address, *NAMESPACES) as server:
        account = opened(server, address)
        short, long = [], []
        for _ in range(SIGNINGS):
            short.append(sign(server, account, bytes(CHUNK)))
            long.append(sign(server, account, bytes((1 + CHUNKS) * CHUNK)))
    return (statistics.median(long) - statistics.median(short)) / CHUNKS * 1_000


def measure(arguments, folder):
    """The figures by name."""
    found = {f"growth, {name}": value for name, value in growth(arguments, folder).items()}
    found["exchange"] = exchange(folder)
    decisions = criterion.run("tenon-signing-policy", "decide", DECISIONS)
    return found | {name: decided["seconds"] * 1_000 for name, decided in decisions.items()}


def targets(found):
    """Rows of the table of targets."""
    for name, millis in found.items():
        if name.startswith("growth"):
            use = {"signs": "the wallet signs", "waits": "a prompt waits", "leaves": "signers leave"}[name.removeprefix("growth, ")]
            yield Target(f"p99 of reads while {use}, minus idle, ms", millis, 5, 1, is_less_better=True)
        elif name == "exchange":
            yield Target("an exchange with a wallet, both sides, ms", millis, 2, 0.5, is_less_better=True)
        else:
            yield Target(f"signing service: {name}, ms", millis, 1, 0.1, is_less_better=True)


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2, help="how long each round lasts")
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args(given)


if __name__ == "__main__":
    servers.allow_many_files()
    with tempfile.TemporaryDirectory(prefix="tenon-bench-", ignore_cleanup_errors=True) as path:
        report_targets(list(targets(measure(arguments(), pathlib.Path(path)))))
