#!/usr/bin/env python3
"""Measures the node beside its limit and a rival, in one run, as ratios, and holds the figures against the targets.

Side by side: hyper with a constant answer (the limit), anvil (if installed), Tenon on HTTP, WebSocket and Unix socket. The
servers are pinned to one core, the load to another, in turns, several rounds; the median round counts. Absolute figures
differ from machine to machine; the ratios are what docs/performance.md keeps.

  benches/run.py                      everything: about ten minutes
  benches/run.py --connections 64     the rows that have targets: about four minutes
  benches/run.py --soak 3600          full load for an hour (or a million blocks); memory and files must stay flat
"""

import argparse
import collections
import contextlib
import json
import pathlib
import sys
import tempfile

import rpc_table
import servers
import soak
import start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1, help="how long each round of each row lasts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 64, 1_000])
    parser.add_argument("--only", help="only requests whose name contains this")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="load for so long instead of measuring")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here too")
    arguments = parser.parse_args()

    servers.allow_many_files()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenon-bench-", ignore_cleanup_errors=True)))
        if arguments.soak:
            samples = soak.run(arguments.soak, folder)
            write(arguments.json, samples)
            return None if soak.report(samples) else 1
        started = start.run(folder)
        cells = rpc_table.run(arguments, folder, stack)
    rpc_table.report(cells)
    print(f"\nstart to first answer {started['seconds']:.3f} s, idle memory {started['rss']:.0f} MB, {started['threads']} threads, {started['files']} open files (medians of fresh `tenon dev`)")
    report_targets([*rpc_table.targets(cells), *start.targets(started)])
    write(arguments.json, {"start": started, "rpc": [{"request": name, "connections": connections, "server": target, **(run or {})} for (name, connections, target), run in cells.items()]})


def report_targets(rows):
    """Every target with what was measured beside it."""
    print("\n| Target | must reach | aim | measured | |")
    print("|---|--:|--:|--:|---|")
    verdicts = collections.Counter()
    for what, value, must, aim, is_less_better in rows:
        if value is None:
            verdict, shown = "not measured", "-"
        else:
            reaches = (lambda bound: value <= bound) if is_less_better else (lambda bound: value >= bound)
            verdict = "aim reached" if reaches(aim) else "met" if reaches(must) else "**missed**"
            shown = f"{value:.2f}"
        verdicts[verdict.strip("*")] += 1
        sign = "≤ " if is_less_better else "≥ "
        print(f"| {what} | {sign}{must} | {sign}{aim} | {shown} | {verdict} |")
    print(f"\n{len(rows)} targets: {', '.join(f'{count} {verdict}' for verdict, count in verdicts.items())}")


def write(path, figures):
    if path:
        path.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
