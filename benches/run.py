#!/usr/bin/env python3
"""Measures the node beside its limit and a rival, in one run, as ratios.

Side by side: hyper with a constant answer (the limit), anvil (if installed), Tenon. The servers are pinned to one core, the
load to another, in turns, several rounds; the median round counts. Absolute figures differ from machine to machine;
the ratios are what docs/performance.md keeps.

  benches/run.py [--seconds 3] [--rounds 3] [--connections 64] [--json FILE]
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "tenon"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", CACHE / "target"))
BENCH = TARGET / "release" / "tenon-bench"
ANVIL = CACHE / "node" / "node_modules" / "@foundry-rs" / "anvil-linux-amd64" / "bin" / "anvil"
ACCOUNT = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
REQUESTS = {
    "eth_blockNumber": {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []},
    "eth_getBalance": {"jsonrpc": "2.0", "id": 1, "method": "eth_getBalance", "params": [ACCOUNT, "latest"]},
}


def pinned(core, command):
    return ["taskset", "-c", str(core), *command] if shutil.which("taskset") and os.cpu_count() > 1 else command


@contextlib.contextmanager
def server(command, ready):
    process = subprocess.Popen(pinned(0, command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield ready(process)
    finally:
        process.terminate()
        process.wait(20)


def first_line(process):
    return process.stdout.readline().strip()


def wait_for_port(port):
    def wait(process):
        while process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return None
            time.sleep(0.05)
        raise SystemExit(f"{process.args} ended with {process.returncode}")

    return wait


def wait_for_file(path):
    def wait(process):
        while not path.exists():
            if process.poll() is not None:
                raise SystemExit(f"{process.args} ended:\n{process.stdout.read()}")
            time.sleep(0.02)
        return json.loads(path.read_text())

    return wait


def measure(arguments, target, request):
    command = [str(BENCH), "load", *target, "--body", json.dumps(request), "--connections", str(arguments.connections)]
    done = subprocess.run(pinned(1, [*command, "--seconds", str(arguments.seconds)]), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"load failed: {done.stderr}")
    return json.loads(done.stdout)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()

    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenon-bench-")))
        limit = stack.enter_context(server([str(BENCH), "limit"], first_line))
        tenon = [str(ROOT / "dist" / "tenon"), "dev", "--datadir", str(folder / "data"), "--http.port", "0", "--ws.port", "0"]
        endpoints = stack.enter_context(server(tenon, wait_for_file(folder / "data" / "endpoints.json")))
        http = ["--http", endpoints["http"].removeprefix("http://").rstrip("/")]
        targets = {"limit (hyper, constant)": ["--http", limit], "Tenon HTTP": http, "Tenon Unix socket": ["--unix", endpoints["ipc"]]}
        if ANVIL.exists():
            port = free_port()
            # Silent, because it would log every request otherwise.
            command = [str(ANVIL), "--port", str(port), "--host", "127.0.0.1", "--silent"]
            stack.enter_context(server(command, wait_for_port(port)))
            targets["anvil HTTP"] = ["--http", f"127.0.0.1:{port}"]
        else:
            print("anvil is not installed: measured without it", file=sys.stderr)
        results = collect(arguments, targets)
    report(arguments, results)


def collect(arguments, targets):
    """Median of the rounds by request and target; the targets take turns, so that noise hits all alike."""
    rounds = {name: {target: [] for target in targets} for name in REQUESTS}
    for _ in range(arguments.rounds):
        for name, request in REQUESTS.items():
            for target, address in targets.items():
                rounds[name][target].append(measure(arguments, address, request))
    middle = lambda runs: sorted(runs, key=lambda run: run["per_second"])[len(runs) // 2]
    return {name: {target: middle(runs) for target, runs in by_target.items()} for name, by_target in rounds.items()}


def report(arguments, results):
    print(f"\n{arguments.connections} connections, one request in flight each, {arguments.rounds} rounds of {arguments.seconds} s, median\n")
    print("| request | server | requests/s | of the limit | of anvil | of Tenon HTTP | p50 µs | p99 µs |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for name, by_target in results.items():
        for target, run in by_target.items():
            ratios = []
            for base in ("limit (hyper, constant)", "anvil HTTP", "Tenon HTTP"):
                ratios.append(f"{run['per_second'] / by_target[base]['per_second']:.2f}" if base in by_target else "-")
            print(f"| {name} | {target} | {run['per_second']:,.0f} | {' | '.join(ratios)} | {run['p50_micros']} | {run['p99_micros']} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
