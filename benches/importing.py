#!/usr/bin/env python3
"""Measures import rates as ratios within one run.

  load    270 full blocks of a native network: the node, and the reference client if its binary is available
          (TENON_REFERENCE=PATH). The reference client gets the same blocks in files of 30, one call per file.
  heavy   chains of the Ethereum profile that the benchmark generates, over states of several sizes: the node's import
          against recovery, execution, state root and commit run in sequence on one core
  headers headers of engine v2 only, 108 masternodes and 73 signatures each, on one core (criterion)

  benches/importing.py [--accounts 10000,100000,1000000] [--blocks 500] [--rounds 3] [--json FILE]
"""

import argparse
import contextlib
import gzip
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import criterion
import servers
from targets import Target, print_measurements

BENCH = servers.TARGET / "release" / "tenon-bench-import"
CHAINS = servers.ROOT / "tests" / "data" / "native" / "chains"
FILE_OF_BLOCKS = 30
PARTS = ("recovery", "execution", "root", "commit")


def say(text):
    print(text, file=sys.stderr, flush=True)


def bench(command, source, folder, one_core=False):
    """One run in a new database, which is removed afterwards."""
    datadir = pathlib.Path(tempfile.mkdtemp(prefix="database-", dir=folder))
    arguments = [str(BENCH), command, "--genesis", str(source[0]), "--chain", str(source[1]), "--datadir", str(datadir)]
    environment = dict(os.environ)
    if one_core:
        environment["RAYON_NUM_THREADS"] = "1"
        arguments = ["taskset", "-c", "0", *arguments] if shutil.which("taskset") else arguments
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    shutil.rmtree(datadir, ignore_errors=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)


def middle(runs, key="seconds"):
    return sorted(runs, key=lambda run: run[key])[len(runs) // 2]


def load(arguments, folder):
    """The native chain, imported alternately by the node and the reference."""
    source = (folder / "genesis.json", folder / "chain.rlp")
    for path, name in zip(source, ("load.genesis.json.gz", "load.rlp.gz")):
        path.write_bytes(gzip.decompress((CHAINS / name).read_bytes()))
    reference = os.environ.get("TENON_REFERENCE")
    if not reference:
        say("TENON_REFERENCE is not set: measured without the reference client")
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        ours.append(bench("together", source, folder))
        if reference:
            theirs.append(import_by_reference(reference, source, folder))
    alone = bench("alone", source, folder, one_core=True)
    return {"tenon": middle(ours), "alone": alone, "reference": middle(theirs) if theirs else None}


def heavy(arguments, folder):
    """The import and its separate steps, by number of accounts in the state."""
    results = {}
    for accounts in arguments.accounts:
        say(f"heavy chain over {accounts:,} accounts")
        out = folder / f"heavy-{accounts}"
        command = [str(BENCH), "make", "--accounts", str(accounts), "--blocks", str(arguments.blocks), "--out", str(out)]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            raise SystemExit(f"making the chain: {made.stderr}")
        source = (out / "genesis.json", out / "chain.rlp")
        together = middle([bench("together", source, folder) for _ in range(arguments.rounds)])
        alone = middle([bench("alone", source, folder, one_core=True) for _ in range(arguments.rounds)], "sum")
        if together["head"] != alone["head"]:
            raise SystemExit(f"heads differ: {together['head']} and {alone['head']}")
        results[accounts] = {"together": together, "alone": alone}
        shutil.rmtree(out, ignore_errors=True)
    return results


def headers():
    """Headers per second on one core: with every signature new, and with all cached."""
    names = {"cold": "cold, one core", "warm": "warm, one core"}
    group = "v2 headers, 108 masternodes, 73 signatures"
    found = criterion.run("tenon-native-consensus", "native_headers", names.values(), group)
    return {name: found[bench]["per_second"] for name, bench in names.items()}


def items(data):
    """Splits concatenated RLP items."""
    position = 0
    while position < len(data):
        prefix = data[position]
        if prefix < 0xF8:
            end = position + 1 + prefix - 0xC0
        else:
            length = int.from_bytes(data[position + 1 : position + prefix - 0xF6], "big")
            end = position + prefix - 0xF6 + length
        yield data[position:end]
        position = end


def import_by_reference(binary, source, folder):
    """A new node of the reference client that imports files of 30 blocks; only the calls are timed. Bytes per block are the
    growth of its archive, measured after it has stopped."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="reference-", dir=folder))
    try:
        files = files_of_blocks(home / "blocks", source[1])
        with reference_node(binary, home, source[0], "admin,eth") as (node, port):
            bytes_before = folder_bytes(home / "XDC")
            began = time.monotonic()
            for path in files:
                ask(port, "admin_importChain", [str(path)])
            seconds = time.monotonic() - began
            head = ask(port, "eth_getBlockByNumber", ["latest", False])
            status = pathlib.Path(f"/proc/{node.pid}/status").read_text()
            peak = next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)
        blocks = int(head["number"], 16)
        grown = folder_bytes(home / "XDC") - bytes_before
    finally:
        shutil.rmtree(home, ignore_errors=True)
    run = {"seconds": seconds, "blocks": blocks, "head": head["hash"], "peak_memory": peak}
    return {**run, "bytes_a_block": grown / max(blocks, 1)}


def folder_bytes(folder):
    """Length of all files below a folder. Files may be removed meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def files_of_blocks(home, chain):
    """Writes the blocks after the genesis as files that the reference client takes in one call each; returns their
    paths."""
    blocks = list(items(chain.read_bytes()))
    home.mkdir(parents=True, exist_ok=True)
    files = []
    for start in range(1, len(blocks), FILE_OF_BLOCKS):
        files.append(home / f"blocks-{start}.rlp")
        files[-1].write_bytes(b"".join(blocks[start : start + FILE_OF_BLOCKS]))
    return files


@contextlib.contextmanager
def reference_node(binary, home, genesis, namespaces, *arguments, core=None):
    """A node of the reference client over the data folder `home`, which gets the genesis if it is new: its process and
    its HTTP port. It is interrupted at the end."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([binary, "--datadir", str(home), "init", str(genesis)], check=True, **quiet)
    chain_id = json.loads(genesis.read_text())["config"]["chainId"]
    with free_port() as port:
        command = f"{binary} --datadir {home} --networkid {chain_id} --gcmode archive --syncmode full --nodiscover"
        command += f" --nat none --maxpeers 0 --port 0 --cache 256 --ws=false --http --http-addr 127.0.0.1 --http-port {port}"
        command = [*command.split(), "--http-api", namespaces, *arguments]
        node = subprocess.Popen(command if core is None else servers.pinned(core, command), **quiet)
    try:
        wait_for(port, node)
        yield node, port
    finally:
        node.send_signal(signal.SIGINT)
        node.wait(60)


@contextlib.contextmanager
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    yield port


def wait_for(port, node):
    for _ in range(600):
        if node.poll() is not None:
            raise SystemExit(f"the reference ended with {node.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise SystemExit("the reference did not open its port")


def ask(port, method, params):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    connection.request("POST", "/", request, {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    if "error" in answer:
        raise SystemExit(f"reference: {method}: {answer['error']}")
    return answer["result"]


def report(results):
    """The tables as text."""
    lines = []
    if results.get("load"):
        ours, theirs, alone = (results["load"][who] for who in ("tenon", "reference", "alone"))
        lines += ["native chain `load`: 270 blocks, 101,830 transactions, 3.24 Ggas", ""]
        lines += ["| client | seconds | blocks/s | tx/s | Mgas/s | peak MB | rate ÷ reference |", "|---|--:|--:|--:|--:|--:|--:|"]
        for name, run in (("Tenon", ours), ("reference", theirs)):
            if run:
                rates = [ours[what] / run["seconds"] for what in ("blocks", "transactions", "gas")]
                ratio = f"{theirs['seconds'] / run['seconds']:.2f}" if theirs else "-"
                lines.append(
                    f"| {name} | {run['seconds']:.2f} | {rates[0]:.0f} | {rates[1]:,.0f} | {rates[2] / 1e6:.0f} "
                    f"| {run['peak_memory'] / 1e6:.0f} | {ratio} |"
                )
        lines += ["", split_line(alone), f"overlapped: {alone['sum'] / ours['seconds']:.2f} times as fast", ""]
    if results.get("heavy"):
        lines += ["heavy chain of the Ethereum profile, 200 transactions per block", ""]
        lines += ["| accounts | together s | tx/s | sum of the steps s | gain | " + " | ".join(f"{part} s" for part in PARTS)]
        lines[-1] += " | root µs an account | peak MB |"
        lines += ["|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
        for accounts, run in results["heavy"].items():
            together, alone = run["together"], run["alone"]
            parts = " | ".join(f"{alone[part]:.2f}" for part in PARTS)
            lines.append(
                f"| {int(accounts):,} | {together['seconds']:.2f} | {together['transactions'] / together['seconds']:,.0f} "
                f"| {alone['sum']:.2f} | {alone['sum'] / together['seconds']:.2f} | {parts} "
                f"| {alone['root'] / alone['accounts'] * 1e6:.1f} | {together['peak_memory'] / 1e6:.0f} |"
            )
        lines += [""]
    if results.get("headers"):
        cold, warm = results["headers"]["cold"], results["headers"]["warm"]
        lines += [f"headers of engine v2, one core: {cold:.0f}/s, {warm:,.0f}/s with cached signatures", ""]
    return "\n".join(lines)


def split_line(alone):
    parts = ", ".join(f"{part} {alone[part]:.2f} s" for part in PARTS)
    return f"alone on one core: {parts}; sum {alone['sum']:.2f} s"


def targets(results):
    """Rows of the table of targets."""
    heavy = results.get("heavy", {})
    for accounts, run in heavy.items():
        gained = run["alone"]["sum"] / run["together"]["seconds"]
        yield Target(f"import over {accounts:,} accounts: sum of the steps on one core ÷ import", gained, 1.3, 1.6)
    if len(heavy) > 1:
        small, large = min(heavy), max(heavy)
        per_account = {accounts: heavy[accounts]["alone"]["root"] / heavy[accounts]["alone"]["accounts"] for accounts in (small, large)}
        name = f"state root an account, {large:,} accounts of {small:,}"
        yield Target(name, per_account[large] / per_account[small], 3, 2, is_less_better=True)


def measure(arguments):
    """The measurements as plain data."""
    with tempfile.TemporaryDirectory(prefix="tenon-bench-") as folder:
        folder = pathlib.Path(folder)
        results = {"load": load(arguments, folder)} if "load" in arguments.parts else {}
        if "heavy" in arguments.parts:
            results["heavy"] = heavy(arguments, folder)
    if "headers" in arguments.parts:
        results["headers"] = headers()
    return results


def arguments(given=None):
    """The options; `given` replaces the command line's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accounts", type=lambda text: [int(part) for part in text.split(",")], default=[10**4, 10**5, 10**6])
    parser.add_argument("--blocks", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", type=lambda text: text.split(","), default=["load", "heavy", "headers"])
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args(given)


if __name__ == "__main__":
    print_measurements(measure, report, targets, arguments())
