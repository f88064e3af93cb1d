#!/usr/bin/env python3
"""Collects the figures of the tests that abuse the node in one table.

Tests report each figure with its bound (`tell`; tests in Rust use `tests/abuse_figures`). The figures are printed and
appended to the file that TENON_FIGURES names. With TENON_ABUSE=long, time bounds are enforced too; a busy machine may
exceed them.

  figures.py FILE [--all] [--json FILE]    print the table of a file of figures; --all: every kind of abuse must be in it
"""

import argparse
import collections
import json
import os
import pathlib
import sys
import textwrap

LONG = os.environ.get("TENON_ABUSE") == "long"
#: The kinds of abuse, and the minimum number of repetitions in the long form, if there is one.
CLAUSES = {
    "kill": ("kill -9: incomplete blocks, wrong roots, acknowledged blocks lost", 300),
    "database": ("database files truncated or changed", 1_000),
    "disk": ("a full disk: reported, nothing written, reads served, normal shutdown, continues with space", 0),
    "input": ("external files truncated, changed, with wrong lengths, deeply nested", 10_000),
    "requests": ("malformed requests: exact error codes", 30_000),
    "spoiled": ("requests from the node's own OpenRPC document, spoiled by type: an answer to each", 100_000),
    "clients": ("hostile clients: memory, files, delay of other clients", 5_000),
    "fair": ("one client floods: other clients are served in turn", 0),
    "memory": ("clients that make the node hold memory: below the sum of its settings plus 256 MiB", 10_000),
    "endless": ("endless requests: stopped at their limit and when the client disconnects", 0),
    "panic": ("a panic in every kind of handler", 0),
    "accounts": ("accounts: nonces while plugins are replaced, clients that try passwords", 10_000),
    "folder": ("folders that must be refused", 0),
    "intruder": ("a plugin that exceeds its grants, and one that does not read", 30),
    "process": ("system limits of the process", 0),
}
HELD, MISSED, MEASURED, LEFT_OUT = "held", "MISSED", "measured", "skipped"


def tell(clause, what, count, figure, bound, *, in_time=None, left_out=False):
    """Reports a figure whose limit has been asserted. `in_time` says whether a time limit was kept, which only the long
    form requires. Returns whether the figure is acceptable."""
    assert clause in CLAUSES, clause
    verdict = LEFT_OUT if left_out else HELD if in_time is None or in_time else MISSED if LONG else MEASURED
    row = {"clause": clause, "what": what, "count": count, "figure": figure, "bound": bound, "verdict": verdict}
    print(f"{clause}: {what}: {count}: {figure} (allowed: {bound}){'' if verdict == HELD else ' ' + verdict}")
    if path := os.environ.get("TENON_FIGURES"):
        with open(path, "a") as file:
            file.write(json.dumps(row) + "\n")
    return verdict != MISSED


def missing(rows):
    """Kinds of abuse that were not exercised, or not often enough."""
    counts = collections.Counter()
    for row in rows:
        counts[row["clause"]] += row["count"]
    return [title for clause, (title, least) in CLAUSES.items() if counts[clause] < max(least, 1)]


def table(rows):
    """The lines of the table: abuse, repetitions, result, limit."""
    lines = []
    width = max((len(row["what"]) for row in rows), default=0)
    for clause, (title, _) in CLAUSES.items():
        own = [row for row in rows if row["clause"] == clause]
        if not own:
            continue
        lines += ["", title]
        for row in own:
            head = f"  {row['what']:<{width}} {row['count']:>7}  "
            text = f"{row['figure']}; allowed: {row['bound']}; {row['verdict']}"
            lines += textwrap.wrap(text, 150, initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False)
    verdicts = collections.Counter(row["verdict"] for row in rows)
    kinds = len({row["clause"] for row in rows})
    lines += ["", f"{len(rows)} figures of {kinds} kinds of abuse: {', '.join(f'{count} {verdict}' for verdict, count in verdicts.items())}"]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--all", action="store_true", help="fail unless every kind of abuse was done as often as the long form does")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows here too")
    arguments = parser.parse_args()
    text = arguments.file.read_text() if arguments.file.exists() else ""
    rows = [json.loads(line) for line in text.splitlines()]
    print("\n".join(table(rows)))
    absent = missing(rows) if arguments.all else []
    for title in absent:
        print(f"not done, or not often enough: {title}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"figures": rows, "absent": absent}, indent=2) + "\n")
    return 1 if absent or any(row["verdict"] == MISSED for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
