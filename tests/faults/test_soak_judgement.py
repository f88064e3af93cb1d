"""The checks of long runs (`make soak`) must distinguish a leak from table files that come and go."""

import os
import pathlib
import random
import socket
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benches"))

import open_files
from open_files import DELETED_TABLES, LOGS, TABLES

QUIET = {"sockets": 5, "kernel objects: eventpoll": 3, LOGS: 3, "libraries of plugins": 8}


def series(change=lambda minute, sample: None, minutes=40):
    """An hour's samples of a node whose database grows: tables come and go, a log is sometimes open twice, a
    connection is sometimes still being closed. `change` adds a fault."""
    chance = random.Random(7)
    samples = []
    for minute in range(minutes):
        live = 30 + 2 * minute + chance.randrange(8)
        held = {**QUIET, TABLES: min(live, 32) + chance.randrange(12), "sockets": 5 + chance.randrange(3), LOGS: 3 + chance.randrange(2)}
        # A file that a compaction has replaced, and that one reading still finds.
        deleted = [1_000 + minute] if chance.random() < 0.2 else []
        sample = {"seconds": 60.0 * minute, "open": held, "tables": live, "deleted": deleted}
        change(minute, sample)
        samples.append(sample)
    return samples


def failures(samples):
    return [row["name"] for row in open_files.evaluate(samples) if not row["is_good"]]


def test_a_growing_database_is_not_a_leak():
    assert failures(series()) == []


@pytest.mark.parametrize("kind", ["sockets", "kernel objects: eventpoll", LOGS, "libraries of plugins", "deleted files", "other files"])
def test_a_slow_leak_is_named(kind):
    def leak(minute, sample):
        # One every ten minutes.
        sample["open"][kind] = sample["open"].get(kind, 0) + minute // 10

    assert failures(series(leak)) == [f"open {kind}, always"]


def test_a_deleted_table_that_stays_open_is_a_leak():
    def leak(minute, sample):
        if minute >= 20:
            sample["deleted"].append(7)
            sample["open"][DELETED_TABLES] = len(sample["deleted"])

    assert failures(series(leak)) == ["a deleted table held for, s"]


def test_deleted_tables_that_come_and_go_are_not_a_leak():
    def busy(minute, sample):
        sample["deleted"] = [10_000 * minute + table for table in range(20)]

    assert failures(series(busy)) == []


def test_more_tables_than_the_database_has_are_a_leak():
    def leak(minute, sample):
        sample["open"][TABLES] = sample["tables"] + minute

    assert failures(series(leak)) == ["open tables beyond those that the database has"]


def test_a_file_is_counted_by_its_target():
    for target, kind in [
        ("socket:[123]", "sockets"),
        ("pipe:[4]", "pipes"),
        ("anon_inode:[eventpoll]", "kernel objects: eventpoll"),
        ("anon_inode:[eventfd]", "kernel objects: eventfd"),
        ("/data/chain/000123.sst", TABLES),
        ("/data/chain/000123.sst (deleted)", DELETED_TABLES),
        ("/data/chain/000123.log", LOGS),
        ("/data/chain/LOG", LOGS),
        ("/data/chain/MANIFEST-000004", LOGS),
        ("/tmp/x (deleted)", "deleted files"),
        ("/plugins/libtenon_plugin_eth.so", "libraries of plugins"),
        ("/dev/null", "devices"),
        ("/data/LOCK", "other files"),
    ]:
        assert open_files.kind_of(target) == kind, target


def test_readings_of_this_process_find_the_files_that_it_opens():
    before = open_files.count([open_files.look(os.getpid())])
    with tempfile.TemporaryDirectory() as folder, socket.socket(), open(f"{folder}/7.sst", "w"), open(f"{folder}/8.sst", "w") as gone:
        pathlib.Path(gone.name).unlink()
        looks = [open_files.look(os.getpid()) for _ in range(2)]
        name = os.fstat(gone.fileno()).st_ino
    after = open_files.count(looks)

    grown = {kind: number - before["open"].get(kind, 0) for kind, number in after["open"].items()}
    assert {kind: number for kind, number in grown.items() if number} == {"sockets": 1, TABLES: 1, DELETED_TABLES: 1}
    assert after["deleted"] == [*before["deleted"], name]
