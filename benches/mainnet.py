#!/usr/bin/env python3
"""Measures a generated chain like the main network's: 108 masternodes that sign every certificate, epochs of 900 blocks, signing
transactions of the masternodes and some ordinary ones (ten per block on average), rewards at each epoch, and a state of a
million accounts.

The chain is made once and kept in a folder; an interrupted run continues with it. The node imports it alternately with all and
with sampled certificates. The reference client imports it too if its binary is given (TENON_REFERENCE=PATH); it starts from a
genesis file with all accounts, and only its import is timed. A second chain over a tenth of the accounts shows whether the bytes
per block grow with the state.

  benches/mainnet.py [--blocks 20000] [--accounts 1000000] [--rounds 1] [--folder FOLDER] [--json FILE]
  benches/mainnet.py --accounts 1000 --blocks 1000 --balance-age 500 --proof-ages 100,800      a small chain, in a minute
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import importing
from targets import Target, print_measurements

MEGABYTE = 1_000_000


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=20_000)
    parser.add_argument("--accounts", type=int, default=1_000_000)
    parser.add_argument("--masternodes", type=int, default=108)
    parser.add_argument("--epoch", type=int, default=900)
    parser.add_argument("--cache", type=int, default=128, help="MiB, of the imports")
    parser.add_argument("--rounds", type=int, default=1, help="imports of each kind; the median counts")
    parser.add_argument("--balance-age", type=int, default=10_000, help="blocks below the head at which balances are read")
    parser.add_argument("--proof-ages", type=lambda text: [int(age) for age in text.split(",")], default=[1_000, 15_000])
    parser.add_argument("--folder", type=pathlib.Path, help="where the chain is kept (default: a new folder, removed at the end)")
    parser.add_argument("--program", type=pathlib.Path, default=importing.BENCH, help="tenon-bench-import")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here too")
    return parser.parse_args(given)


def bench(options, *command):
    """One run of the program; its last line is the report."""
    done = subprocess.run([str(options.program), "mainnet", *map(str, command)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{options.program} mainnet {' '.join(map(str, command))} ended with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def make(options, folder, accounts):
    size = ["--accounts", accounts, "--blocks", options.blocks, "--epoch", options.epoch]
    size += ["--masternodes", options.masternodes, "--signatures", options.masternodes]
    if os.environ.get("TENON_REFERENCE") and accounts == options.accounts:
        size += ["--genesis-file"]
    return bench(options, "make", "--folder", folder, *size)


def import_once(options, folder, database, kind, head):
    """An import into a new database, which is kept."""
    shutil.rmtree(database, ignore_errors=True)
    command = ["--folder", folder, "--datadir", database, "--cache", options.cache, "--certificates", kind]
    run = bench(options, "import", *command)
    if run["head"] != head:
        raise SystemExit(f"heads differ: {run['head']} and {head}")
    return run


def over_a_tenth(options, folder):
    """The import over a tenth of the accounts."""
    folder = folder / "tenth"
    made = make(options, folder, options.accounts // 10)
    database = folder / "imported"
    run = import_once(options, folder, database, "sampled", made["head"])
    shutil.rmtree(database, ignore_errors=True)
    return run


def measure(options):
    with contextlib.ExitStack() as stack:
        folder = options.folder
        if folder is None:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenon-mainnet-", ignore_cleanup_errors=True)))
        made = make(options, folder, options.accounts)
        runs = {"all": [], "sampled": []}
        database = folder / "imported"
        for _ in range(options.rounds):
            # All certificates last, because the database of that import is read afterwards.
            for kind in ("sampled", "all"):
                runs[kind].append(import_once(options, folder, database, kind, made["head"]))
        ages = ",".join(str(age) for age in options.proof_ages)
        asked = ["--accounts", options.accounts, "--balance-age", options.balance_age, "--proof-ages", ages]
        answers = bench(options, "ask", "--folder", folder, "--datadir", database, *asked)
        shutil.rmtree(database, ignore_errors=True)
        found = {"made": made, "asked": answers, **{kind: importing.middle(runs[kind]) for kind in runs}}
        found["tenth"] = over_a_tenth(options, folder)
        found["reference"] = by_reference(folder, made)
    return found


def by_reference(folder, made):
    """The import by the reference client; `None` without its binary or its genesis file."""
    binary, genesis = os.environ.get("TENON_REFERENCE"), folder / "genesis-full.json"
    if not binary:
        importing.say("TENON_REFERENCE is not set: measured without the reference client")
        return None
    if not genesis.exists():
        importing.say(f"{genesis} was not written when the chain was made: measured without the reference client")
        return None
    blocks = folder / "with-genesis.rlp"
    try:
        # An exported chain begins with the genesis block, which is left out.
        with blocks.open("wb") as file, (folder / "chain.rlp").open("rb") as chain:
            file.write(b"\xc0")
            shutil.copyfileobj(chain, file)
        run = importing.import_by_reference(binary, (genesis, blocks), folder)
    finally:
        blocks.unlink(missing_ok=True)
    if run["head"] != made["head"]:
        importing.say(f"the reference stopped at block {run['blocks']}, which is not the head: not compared")
        return None
    return run


def report(found):
    made, asked = found["made"], found["asked"]
    lines = [f"mainnet-like chain: {made['blocks']:,} blocks, {made['transactions'] / max(made['blocks'], 1):.1f} transactions each", ""]
    lines += ["| import | seconds | blocks/s | peak MB | bytes per block | epoch switch ms | rate ÷ reference |", "|---|--:|--:|--:|--:|--:|--:|"]
    reference = found["reference"]
    tenth = ("sampled, a tenth of the accounts", found["tenth"])
    for name, run in (("all certificates", found["all"]), ("sampled", found["sampled"]), tenth, ("reference", reference)):
        if run:
            comparable = reference and run is not found["tenth"]
            cells = [f"{run['seconds']:.1f}", f"{run['blocks'] / run['seconds']:.0f}", f"{run['peak_memory'] / MEGABYTE:.0f}"]
            cells += [shown(run.get("bytes_a_block"), ",.0f"), shown(run.get("switch_milliseconds"), ".1f")]
            cells += [f"{reference['seconds'] / run['seconds']:.2f}" if comparable else "-"]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    memory = found["all"]["memory"]
    if memory:
        lines += ["", "memory while importing, MB: " + ", ".join(f"{bytes_ / MEGABYTE:.0f}" for bytes_ in memory)]
    lines += ["", f"balance at the head {asked['balance_at_head_microseconds']:.2f} µs, {asked['balance_age']:,} blocks back "
              f"{asked['balance_past_microseconds']:.2f} µs: {asked['balance_ratio']:.2f} times"]
    lines += [f"proof {proof['age']:,} blocks back: {proof['seconds'] * 1000:.1f} ms" for proof in asked["proofs"]]
    return "\n".join(lines)


def shown(value, form):
    return "-" if value is None else f"{value:{form}}"


def targets(found):
    """Rows of the table of targets. Targets of proofs are for the ages of the full run."""
    reference, asked = found["reference"], found["asked"]
    ratio = lambda kind: reference["seconds"] / found[kind]["seconds"] if reference else None
    yield Target("import of the mainnet-like chain ÷ reference", ratio("all"), 3, 5)
    yield Target("the same, sampled certificates", ratio("sampled"), 8, 15)
    bytes_of = found["all"]["bytes_a_block"] / reference["bytes_a_block"] if reference else None
    yield Target("archive bytes per block ÷ reference's archive", bytes_of, 1 / 3, 1 / 6, is_less_better=True)
    growth = found["sampled"]["bytes_a_block"] / found["tenth"]["bytes_a_block"]
    yield Target("archive bytes per block with ten times the state ÷ without", growth, 1.1, 1.05, is_less_better=True)
    name = f"balance {asked['balance_age']:,} blocks back, of one at the head"
    yield Target(name, asked["balance_ratio"], 2, 1.3, is_less_better=True)
    bounds = {1_000: (0.2, 0.05), 15_000: (2, 0.5)}
    for proof in asked["proofs"]:
        if proof["age"] in bounds:
            yield Target(f"proof {proof['age']:,} blocks back, s", proof["seconds"], *bounds[proof["age"]], is_less_better=True)
    yield Target("memory while importing, MB", found["all"]["peak_memory"] / MEGABYTE, 512, 300, is_less_better=True)
    yield Target("epoch switch beyond an ordinary block, ms", found["all"]["switch_milliseconds"], 30, 10, is_less_better=True)


if __name__ == "__main__":
    print_measurements(measure, report, targets, arguments())
