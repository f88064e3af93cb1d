#!/usr/bin/env python3
"""The figures of tests that abuse the node, as one table.

Tests tell each figure with its bound (`tell`, and `tests/abuse_figures` for those in Rust). It goes to the output, and to the
file that TENON_FIGURES names. TENON_ABUSE=long: bounds of time are held too, which a crowded machine may miss.

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
# : The kinds of abuse, and the minimum number of repetitions in the long form, if there is one.
CLAUSES = {
    "kill": ("kill -9: half blocks, wrong roots, acknowledged blocks lost", 300),
    "database": ("files of the database torn or changed", 1_000),
    "disk": ("a full disk: said, nothing written, reads served, ended in order, goes on with room", 0),
    "input": ("files from outside torn, changed, with lengths that lie, nested deep", 10_000),
    "requests": ("malformed requests: exact codes", 30_000),
    "clients": ("rude clients: memory, files, what others notice", 5_000),
    "fair": ("one client floods: others are served in their turn", 0),
    "memory": ("clients that make the node keep things: within its settings' sum and 256 MB", 10_000),
    "endless": ("requests without end: cut, stopped when the client has gone", 0),
    "panic": ("a panic in every kind of handler", 0),
    "folder": ("folders that must not be opened", 0),
    "intruder": ("a plugin that tries to get beyond its grants, and one that does not read", 30),
    "process": ("what the system gives or refuses the process", 0),
}
HELD, MISSED, MEASURED, LEFT_OUT = "held", "MISSED", "measured", "left out"


def tell(clause, what, count, figure, bound, *, in_time=None, left_out=False):
    """A figure whose limit has been asserted. `in_time`: whether a time limit was kept, which only the long form
    requires. Returns whether the figure is acceptable."""
    assert clause in CLAUSES, clause
    verdict = LEFT_OUT if left_out else HELD if in_time is None or in_time else MISSED if LONG else MEASURED
    row = {"clause": clause, "what": what, "count": count, "figure": figure, "bound": bound, "verdict": verdict}
    print(f"{clause}: {what}: {count}: {figure} (allowed: {bound}){'' if verdict == HELD else ' ' + verdict}")
    if path := os.environ.get("TENON_FIGURES"):
        with open(path, "a") as file:
            file.write(json.dumps(row) + "\n")
    return verdict != MISSED


def missing(rows):
    """Kinds of abuse that were not done, or not often enough."""
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
