"""`tenon db migrate` killed at random: the database is whole at any time, with the same head, and the next run continues.

TENON_KILLS: kills per database (default 3; the full run is 34, of three databases). TENON_SEED: the seed, printed at the start,
to replay a run.
"""

import json
import shutil

import pytest

from figures import tell
from kills import dice, killed, kills, rounds, timed
from native_chains import Recorded
from tenon_node import Node, folder, run
from test_formats import FIXTURES, opened

KILLS = kills(3)


def migrate(datadir):
    return ["db", "migrate", "--datadir", datadir, "--database.triewindow", "128"]


def statistics(datadir):
    return json.loads(run("db", "stats", "--json", "--datadir", datadir).stdout)


def whole_copy(datadir, head):
    """Opens a copy of a killed database, so that its own migration is not continued yet; returns the copy's statistics."""
    copy = datadir.with_name("copy")
    shutil.copytree(datadir, copy)
    try:
        found = statistics(copy)
        assert found["head"] == head
        assert run("db", "verify", "--datadir", copy).stdout.startswith("sound")
        return found
    finally:
        shutil.rmtree(copy)


def killed_again_and_again(path, head, is_enough, dice):
    """Kills migrations of copies of the folder `old`, each until it ends, and checks every state in between. The last one ends.
    Returns the oldest whole trie after each kill that hit a migration, and the number of kills."""
    old, datadir, hits, times = path / "old", path / "data", [], 0
    shutil.copytree(old, datadir)
    longest = timed(*migrate(datadir))
    oldest = statistics(datadir)["oldestTrie"]
    has_ended = True
    for _ in rounds(KILLS, lambda: is_enough(hits)):
        if has_ended:
            shutil.rmtree(datadir)
            shutil.copytree(old, datadir)
        has_ended = not killed(dice, longest, *migrate(datadir))
        times += 1
        found = whole_copy(datadir, head)["oldestTrie"]
        if not has_ended:
            hits.append(found)
    run(*migrate(datadir))
    assert "nothing to do" in (again := run(*migrate(datadir)).stdout) and "removed" not in again, again
    assert whole_copy(datadir, head)["oldestTrie"] == oldest
    return hits, times


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture["file"])
def test_a_killed_migration_of_an_earlier_release_continues(fixture, dice):
    with folder() as path:
        opened(path, fixture).rename(path / "old")
        hits, times = killed_again_and_again(path, fixture["head"], bool, dice)
        with Node("run", datadir=path / "data") as node:
            for question in fixture["answers"]:
                assert node.call(question["method"], *question["params"]) == question["result"], question
        tell("kill", f"db migrate, {fixture['file']}", times, f"{len(hits)} while it ran; whole, the same head and answers each time", "0, 0, 0")


def test_a_killed_removal_of_old_tries_continues(dice):
    with folder() as path:
        recorded = Recorded("local", path)
        every = ["--database.triewindow", "100000"]
        run("import", "--genesis", recorded.genesis, "--datadir", path / "old", *every, recorded.file)
        before = statistics(path / "old")
        assert before["oldestTrie"] == 0

        def between(hits):
            return [trie for trie in hits if 0 < trie < recorded.last - 128]

        hits, times = killed_again_and_again(path, before["head"], between, dice)
        tell("kill", f"db migrate, {recorded.last - 128} tries to remove", times,
             f"{len(between(hits))} in the middle, {len(hits)} while it ran; whole and the same head each time", "0, 0, 0")
