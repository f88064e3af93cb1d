#!/usr/bin/env python3
"""Compares two builds of the node: is any row of the request table slower than before?

Both builds serve a chain with the same contents, each pinned to the first core; the load runs on another. Every round
starts both builds, measures each row once with each, alternating, and gives one ratio per row: new / old, answers per
second. The table shows the median ratio of each row and the 95 % interval of its mean. A row is slower if its whole
interval is below 0.98; the exit status is then 1. `--instructions` counts instructions per answer with valgrind
instead, which are free of noise.

  benches/compare.py --old PATH/tenon                       31 rounds of every row: about half an hour
  benches/compare.py --old PATH/tenon --instructions        instructions per answer, a quarter of an hour
"""

import argparse
import contextlib
import json
import math
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import rpc_table
import servers

TRANSPORTS = ("HTTP", "WebSocket", "Unix")
LOSS = 0.02
"""Maximum slowdown of a row."""
STUDENT_95 = {30: 2.042, 20: 2.086, 10: 2.228, 5: 2.571}
"""Two-sided 95 % quantiles of Student's distribution, by degrees of freedom; the next lower row is used in between."""
COUNTED = 1_000
"""Number of answers whose instructions are counted."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=pathlib.Path, required=True, help="the program to compare with, its plugins beside it")
    parser.add_argument("--new", type=pathlib.Path, default=servers.TENON, help="the program to judge (dist/tenon)")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--seconds", type=float, default=0.4, help="how long each build is measured in each round of a row")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--only", help="only rows whose name contains this")
    parser.add_argument("--transports", nargs="+", choices=TRANSPORTS, default=TRANSPORTS)
    parser.add_argument("--instructions", action="store_true", help="count instructions instead of measuring time")
    parser.add_argument("--json", type=pathlib.Path, help="write every ratio here too")
    arguments = parser.parse_args()
    if arguments.rounds < 6:
        parser.error("--rounds: an interval needs 6 at least")

    servers.allow_many_files()
    with tempfile.TemporaryDirectory(prefix="tenon-compare-", ignore_cleanup_errors=True) as folder:
        programs = {"old": arguments.old.resolve(), "new": arguments.new.resolve()}
        chains = {}
        for name, program in programs.items():
            (pathlib.Path(folder) / name).mkdir()
            chains[name] = rpc_table.prepare_tenon(pathlib.Path(folder) / name / "data", program)
        compare = count_instructions if arguments.instructions else measure_rounds
        ratios = compare(arguments, pathlib.Path(folder), programs, chains)
    if arguments.json:
        arguments.json.write_text(json.dumps(ratios, indent=1))
    return report(ratios, arguments.instructions)


def rows(arguments, chain):
    """The requested rows: (request name, transport)."""
    names = [name for name in rpc_table.requests(chain) if not arguments.only or arguments.only in name]
    return [(name, transport) for name in names for transport in arguments.transports]


def measure_rounds(arguments, folder, programs, chains):
    """Ratios of answers per second, new / old, by row: one per round. Each round starts both nodes again, because two
    runs of one program differ by several per cent."""
    bodies = {name: rpc_table.requests(chain) for name, chain in chains.items()}
    ratios = {row: [] for row in rows(arguments, chains["new"])}
    for number in range(arguments.rounds):
        begun = time.monotonic()
        order = ("old", "new") if number % 2 else ("new", "old")
        with contextlib.ExitStack() as stack:
            start = lambda name: stack.enter_context(servers.tenon(folder / name / "data", program=programs[name]))
            nodes = {name: start(name) for name in order}
            for (request, transport), found in ratios.items():
                # The first answers of a node include one-time costs.
                for name in order:
                    rate(nodes[name], transport, bodies[name][request], arguments, arguments.seconds / 4)
                rates = {name: rate(nodes[name], transport, bodies[name][request], arguments, arguments.seconds) for name in order}
                found.append(rates["new"] / rates["old"])
        print(f"round {number + 1}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return {f"{request}, {transport}": found for (request, transport), found in ratios.items()}


def rate(node, transport, body, arguments, seconds):
    """Answers per second of one measurement."""
    found = servers.load(node, transport, body, arguments.connections, seconds)
    if "failure" in found:
        raise SystemExit(f"{transport}, {body}: {found['failure']}")
    return found["per_second"]


def count_instructions(arguments, folder, programs, chains):
    """Ratios of instructions per answer, old / new (above 1: the new build needs fewer), one per row. Every request is
    measured over the Unix socket only."""
    counts = {}
    for name, program in programs.items():
        bodies = rpc_table.requests(chains[name])
        with counted_node(folder / name, program) as (node, path):
            for request in dict.fromkeys(request for request, _ in rows(arguments, chains[name])):
                counts[request, name] = instructions_an_answer(folder / name, node, path, bodies[request])
                print(f"{name}: {request}: {counts[request, name]:,.0f} instructions", file=sys.stderr, flush=True)
    return {f"{request}, Unix": [counts[request, "old"] / counts[request, "new"]] for request, name in counts if name == "new"}


@contextlib.contextmanager
def counted_node(folder, program):
    """A node under valgrind, which counts its instructions: returns the process and the path of its socket."""
    datadir = folder / "data"
    endpoints = datadir / "endpoints.json"
    endpoints.unlink(missing_ok=True)
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'callgrind.out'}"]
    command += [str(program), "dev", "--datadir", str(datadir), "--http.port", "0", "--ws.port", "0"]
    with open(folder / "callgrind.log", "ab") as log:
        node = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while not endpoints.exists():
            if node.poll() is not None:
                raise SystemExit(f"the node ended with {node.returncode}: {folder / 'callgrind.log'}")
            time.sleep(0.05)
        yield node, json.loads(endpoints.read_text())["ipc"]
    finally:
        node.terminate()
        node.wait(120)


def instructions_an_answer(folder, node, path, body):
    """Instructions of the node for one answer over its Unix socket. The first answers include one-time costs."""
    ask(path, body, COUNTED // 10)
    control(node, "--zero")
    ask(path, body, COUNTED)
    known = set(folder.glob("callgrind.out*"))
    control(node, "--dump")
    (dump,) = set(folder.glob("callgrind.out*")) - known
    return int(re.search(r"^(?:totals|summary): (\d+)", dump.read_text(), re.MULTILINE).group(1)) / COUNTED


def control(node, command):
    """Sends a command to valgrind's counter."""
    subprocess.run(["callgrind_control", command, str(node.pid)], check=True, stdout=subprocess.DEVNULL)


def ask(path, body, answers):
    """Sends requests over the Unix socket, one after the other."""
    line = json.dumps(body).encode() + b"\n"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        reader = client.makefile("rb")
        for _ in range(answers):
            client.sendall(line)
            if b'"error"' in reader.readline():
                raise SystemExit(f"an error answered {body}")


def interval(ratios):
    """The 95 % interval of the mean ratio, computed on logarithms."""
    logarithms = [math.log(ratio) for ratio in ratios]
    degrees = max(key for key in STUDENT_95 if key <= len(ratios) - 1)
    half = STUDENT_95[degrees] * statistics.stdev(logarithms) / math.sqrt(len(ratios))
    mean = statistics.mean(logarithms)
    return math.exp(mean - half), math.exp(mean + half)


def report(ratios, counted):
    """Prints the table; returns 1 if a row is too slow, else 0."""
    print(f"\n| Row | {'old / new instructions' if counted else 'new / old, median | 95 % interval'} | |")
    print("|---|--:|---|" if counted else "|---|--:|---|---|")
    slower = 0
    for row, found in ratios.items():
        low, high = (found[0], found[0]) if counted else interval(found)
        is_slower = high < 1 - LOSS
        slower += is_slower
        between = "" if counted else f" {low:.3f} to {high:.3f} |"
        print(f"| {row} | {statistics.median(found):.3f} |{between} {'**slower**' if is_slower else ''} |")
    print(f"\n{len(ratios)} rows, {slower} slower by more than {LOSS:.0%}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
