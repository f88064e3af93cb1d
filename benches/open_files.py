"""The open files of a process by kind, and whether any of them leak.

Table files of the database come and go with its compactions, so their number alone means nothing. Everything else
must not grow at all. Therefore each open file is counted in a class by its target, and two rules apply:

- For every class but the tables, the minimum in the second half of the samples must not exceed the minimum in the
first. A leak raises what is always open; files that are open only for a moment (a connection that is closing) do not
count.
- There are no more open tables than the database reports, plus a few that compactions are writing or have just
replaced; and no deleted table stays open. A table that is never closed is deleted as soon as a compaction has
replaced it, under this load within minutes.
"""

import collections
import os
import pathlib
import re
import stat

TABLES, DELETED_TABLES, LOGS, OTHERS = "tables", "deleted tables", "logs", "other files"
DELETED = " (deleted)"
# The database does not report all open tables: compactions are writing some, and replaced ones are not removed yet.
TABLE_ALLOWANCE = 16
# How long a deleted table may stay open, seconds: the longest request may last a minute, and keeps what it reads.
HELD_SECONDS = 120
# By how many the minimum of a class may rise. A new log is opened before the previous one is closed.
MAY_RISE = {LOGS: 1}


def kind_of(target):
    """The class of a descriptor by its link in `/proc`."""
    if match := re.match(r"(socket|pipe|anon_inode):\[?([a-z_]*)", target):
        kind, name = match.groups()
        return {"socket": "sockets", "pipe": "pipes"}.get(kind) or f"kernel objects: {name}"
    path = pathlib.PurePath(target.removesuffix(DELETED))
    is_deleted = target.endswith(DELETED)
    if path.suffix == ".sst":
        return DELETED_TABLES if is_deleted else TABLES
    if is_deleted:
        return "deleted files"
    if path.suffix == ".log" or path.name == "LOG" or path.name.startswith(("LOG.", "MANIFEST-")):
        return LOGS
    if path.suffix == ".so":
        return "libraries of plugins"
    return "devices" if path.is_relative_to("/dev") and not path.is_relative_to("/dev/shm") else OTHERS


def look(pid):
    """Every open file of a process: its class, and an identifier that lasts while it is open."""
    found = []
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            kind, file = kind_of(os.readlink(link)), os.stat(link)
            found.append(("folders" if kind == OTHERS and stat.S_ISDIR(file.st_mode) else kind, file.st_ino))
        except OSError:
            # Closed since the folder was listed.
            continue
    return found


def count(looks):
    """One sample from several readings a moment apart: the minimum of each class, and the deleted tables present in
    every reading."""
    counts = [collections.Counter(kind for kind, _ in found) for found in looks]
    deleted = [{file for kind, file in found if kind == DELETED_TABLES} for found in looks]
    kinds = sorted(set().union(*counts))
    return {"open": {kind: min(one[kind] for one in counts) for kind in kinds}, "deleted": sorted(set.intersection(*deleted))}


def evaluate(samples):
    """Rows with a value, its limit and whether it is kept. A sample has `seconds`, `open` by class, `deleted`
    (identifiers of the deleted tables), and `tables` (how many the database reports)."""
    half = len(samples) // 2
    kinds = sorted({kind for sample in samples for kind in sample["open"]} - {TABLES, DELETED_TABLES})
    rows = []
    for kind in kinds:
        series = [sample["open"].get(kind, 0) for sample in samples]
        before, after = min(series[:half], default=0), min(series[half:])
        bound = before + MAY_RISE.get(kind, 0)
        rows.append(row(f"open {kind}, always", after, bound, max(series)))
    series = [sample["open"].get(TABLES, 0) for sample in samples]
    beyond = max(held - sample["tables"] for held, sample in zip(series, samples))
    rows.append(row("open tables beyond those that the database has", beyond, TABLE_ALLOWANCE, max(series)))
    rows.append(row("a deleted table held for, s", longest_held(samples), HELD_SECONDS, max(len(sample["deleted"]) for sample in samples)))
    return rows


def row(name, found, bound, largest):
    return {"name": name, "found": found, "bound": bound, "largest": largest, "is_good": found <= bound}


def longest_held(samples):
    """For how long the same deleted table was seen, seconds."""
    first, longest = {}, 0
    for sample in samples:
        first = {file: first.get(file, sample["seconds"]) for file in sample["deleted"]}
        longest = max([longest, *(sample["seconds"] - since for since in first.values())])
    return longest
