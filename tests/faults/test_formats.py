"""Databases of earlier releases open in this release, verify, give the same answers and can be continued.

They are in `tests/data/databases`, which describes how each was made. Each new format adds a database; none is removed.
"""

import json
import tarfile

import pytest

from native_chains import Recorded
from figures import tell
from tenon_node import DATA, Node, folder, run

DATABASES = DATA / "databases"
FIXTURES = json.loads((DATABASES / "databases.json").read_text())


def opened(path, fixture):
    with tarfile.open(DATABASES / fixture["file"]) as archive:
        archive.extractall(path / "data", filter="data")
    return path / "data"


def rest_of(fixture, path):
    """The complete recorded chain of which the database contains the beginning, and its head."""
    if fixture["chain"] == "conformance":
        return DATA / "execution-apis" / "chain.rlp.gz", json.loads((DATA / "execution-apis" / "headfcu.json").read_text())
    recorded = Recorded(fixture["chain"], path)
    return recorded.file, recorded.lines[recorded.last]["hash"]


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture["file"])
def test_a_database_of_an_earlier_release_opens_verifies_and_continues(fixture):
    with folder() as path:
        datadir = opened(path, fixture)
        statistics = json.loads(run("db", "stats", "--json", "--datadir", datadir).stdout)
        assert statistics["head"] == fixture["head"]
        assert f"sound: {fixture['head']['number'] + 1} blocks" in run("db", "verify", "--datadir", datadir).stdout
        run("db", "migrate", "--datadir", datadir)
        with Node("run", datadir=datadir) as node:
            for question in fixture["answers"]:
                assert node.call(question["method"], *question["params"]) == question["result"], question
            assert node.stop() == 0
        chain, head = rest_of(fixture, path)
        head = head["params"][0]["headBlockHash"] if isinstance(head, dict) else head
        done = run("import", "--datadir", datadir, chain)
        assert head in done.stdout, done.stdout
        run("db", "verify", "--datadir", datadir)
        tell("database", f"made by {fixture['program']}, format {fixture['format']}, {fixture['chain']}", 1,
             f"opened at block {fixture['head']['number']}, sound, {len(fixture['answers'])} answers as before, "
             "continued to the recorded head", "opens")
