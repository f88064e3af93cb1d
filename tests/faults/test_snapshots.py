"""`tenon snapshot`: snapshots of a stopped and of a running node, as a folder and as one file. Every problem of a
snapshot is named; a kill or a full disk loses nothing. TENON_KILLS: number of kills per test (default 4; the full run is
50, which is 100 of each command)."""

import gzip
import fcntl
import io
import json
import os
import shutil
import tarfile

import pytest

from figures import tell
from kills import dice, killed, kills, rounds, timed
from tenon_node import DATA, Node, folder, run, unpacked
from test_full_disk import largest_file

KILLS = kills(4)
HEAD = "0x59412189544e339ef4d4f53c0345b7e641ed242c24119d8e9f94bd8ea81a9a25"
FORMS = ("folder", "file.tar.gz")


@pytest.fixture(scope="module")
def chain():
    """A folder with the recorded chain `local` in the data folder `data`."""
    with folder() as path:
        genesis = unpacked(DATA / "chain" / "native-genesis-local.json.gz", path / "genesis.json")
        blocks = unpacked(DATA / "native" / "chains" / "local.rlp.gz", path / "chain.rlp")
        run("import", "--genesis", genesis, "--datadir", path / "data", blocks)
        for form in FORMS:
            run("snapshot", "create", path / form, "--datadir", path / "data")
        yield path


@pytest.fixture
def place():
    with folder() as path:
        yield path


def copied(source, target):
    return shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


def state_of(path):
    return {str(file): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def refused(snapshot, place, *words, code=1):
    """Checks that verifying and restoring fail with these words, leave nothing behind, and do not change the snapshot."""
    before = state_of(snapshot) if snapshot.is_dir() else snapshot.read_bytes()
    for command in (("verify", snapshot), ("restore", snapshot, "--datadir", place / "restored")):
        done = run("snapshot", *command, check=False)
        assert done.returncode == code and all(word in done.stderr for word in words), (done.stdout, done.stderr)
    assert not list((place / "restored").glob("db*"))
    assert (state_of(snapshot) if snapshot.is_dir() else snapshot.read_bytes()) == before


@pytest.mark.parametrize("form", FORMS)
def test_a_snapshot_is_verified_and_restored_to_the_same_head(chain, place, form):
    snapshot = copied(chain / form, place / form)
    before = state_of(place)

    sound = run("snapshot", "verify", snapshot).stdout
    assert sound.startswith(f"sound: chain 5151, block 673 {HEAD}") and "computed again from" in sound, sound
    assert "masternodes that block" in sound and "--trust-hash" in sound, sound
    assert state_of(place) == before, "verifying changed the snapshot, or left something"

    restored = run("snapshot", "restore", snapshot, "--datadir", place / "data", "--trust-hash", HEAD).stdout
    assert f"trusts the hash {HEAD} of the head, which the operator gave" in restored
    statistics = json.loads(run("db", "stats", "--json", "--datadir", place / "data").stdout)
    assert statistics["head"]["hash"] == HEAD
    assert run("db", "verify", "--datadir", place / "data").stdout.startswith("sound")
    with Node("run", datadir=place / "data") as node:
        assert node.call("eth_getBlockByNumber", "latest", False)["hash"] == HEAD
    again = run("snapshot", "restore", snapshot, "--datadir", place / "data", check=False)
    assert again.returncode == 3 and "already has a chain" in again.stderr


@pytest.mark.parametrize("form", FORMS)
def test_a_running_node_is_copied_while_it_serves(chain, place, form):
    shutil.copytree(chain / "data", place / "data")
    with Node("run", datadir=place / "data") as node:
        made = run("snapshot", "create", place / form, "--datadir", place / "data").stdout
        assert f"block 673 {HEAD}" in made
        assert node.call("eth_blockNumber") == hex(673)
        assert not (place / "data" / "checkpoint").exists()
    assert run("snapshot", "verify", place / form, "--trust-hash", HEAD).stdout.startswith("sound")


@pytest.mark.parametrize("form", FORMS)
def test_another_head_than_the_trusted_one_is_refused(chain, place, form):
    done = run("snapshot", "restore", chain / form, "--datadir", place / "data", "--trust-hash", "0x" + "11" * 32, check=False)
    assert done.returncode == 1 and f"its head is block 673 {HEAD}, not the trusted 0x1111" in done.stderr, done.stderr
    assert not (place / "data" / "db").exists()


def test_a_changed_missing_or_extra_part_is_named(chain, place):
    changes = {
        "differs from its entry in the list": lambda part: part.write_bytes(part.read_bytes()[:-1] + b"x"),
        "is missing": lambda part: part.unlink(),
        "is not in its list": lambda part: part.with_name("000999.sst").write_bytes(b"x"),
    }
    for number, (words, change) in enumerate(changes.items()):
        snapshot = copied(chain / "folder", place / f"folder{number}")
        change(sorted((snapshot / "db").glob("*.sst"))[0])
        refused(snapshot, place, words, ".sst")
    snapshot = copied(chain / "folder", place / "more")
    (snapshot / "keystore").mkdir()
    refused(snapshot, place, "keystore is not in its list")
    snapshot = copied(chain / "folder", place / "genesis")
    (snapshot / "genesis.json").write_bytes((snapshot / "genesis.json").read_bytes() + b" ")
    refused(snapshot, place, "genesis.json differs from its entry in the list")


def repacked(source, target, change):
    """An archive whose members were replaced by the result of `change`."""
    with tarfile.open(source) as old, tarfile.open(target, "w:gz", compresslevel=1) as new:
        for name, content in change({member.name: old.extractfile(member).read() for member in old}).items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            new.addfile(header, io.BytesIO(content))
    return target


def test_a_changed_missing_or_extra_member_of_a_file_is_named(chain, place):
    table = next(name for name in tarfile.open(chain / "file.tar.gz").getnames() if name.endswith(".sst"))
    changes = {
        f"{table} differs from its entry in the list": lambda parts: parts | {table: parts[table][:-1] + b"x"},
        f"{table} is missing": lambda parts: {name: parts[name] for name in parts if name != table},
        "db/000999.sst is not in its list": lambda parts: parts | {"db/000999.sst": b"x"},
        "../evil is not part of a snapshot": lambda parts: parts | {"../evil": b"x"},
        "backup.json is missing: the file is incomplete": lambda parts: {name: parts[name] for name in parts if name != "backup.json"},
    }
    for number, (words, change) in enumerate(changes.items()):
        refused(repacked(chain / "file.tar.gz", place / f"{number}.tar.gz", change), place, words)
    assert not (place.parent / "evil").exists()
    cut = place / "cut.tar.gz"
    for share in (0.1, 0.5, 0.99):
        content = (chain / "file.tar.gz").read_bytes()
        cut.write_bytes(content[: int(len(content) * share)])
        refused(cut, place, "cut.tar.gz")
    cut.write_bytes(gzip.compress(bytes(1 << 28), 1))
    refused(cut, place, "cut.tar.gz")
    cut.write_bytes((chain / "file.tar.gz").read_bytes() + b"more")
    refused(cut, place, "the archive has 4 bytes after its end; use another snapshot")


def test_a_name_in_a_header_of_its_own_is_refused_unread(chain, place):
    """Such a header may be as long as the archive: the program would read it into memory."""
    for number, form in enumerate((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)):
        spoiled = place / f"{number}.tar.gz"
        with tarfile.open(spoiled, "w:gz", format=form) as archive:
            header = tarfile.TarInfo("db/" + "a" * (4 << 20))
            header.size = 1
            archive.addfile(header, io.BytesIO(b"x"))
        refused(spoiled, place, "is not part of a snapshot")


def test_a_folder_is_restored_once_at_a_time(chain, place):
    """The second command changes nothing that the first one has written."""
    held = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        for arguments in (["snapshot", "restore", chain / "folder"], ["import", "--genesis", chain / "genesis.json", chain / "chain.rlp"]):
            done = run(*arguments, "--datadir", place, check=False)
            assert done.returncode == 3 and "another process restores or creates a chain there" in done.stderr, done.stderr
        assert not list(place.iterdir())
    finally:
        os.close(held)


def test_a_newer_format_and_other_rules_are_refused(chain, place):
    snapshot = copied(chain / "folder", place / "folder")
    listed = json.loads((snapshot / "backup.json").read_text())
    for member, value in (("backup", 99), ("databaseFormat", 999)):
        (snapshot / "backup.json").write_text(json.dumps(listed | {member: value}))
        refused(snapshot, place, "use a newer release", str(value), code=3)
    (snapshot / "backup.json").write_text(json.dumps(listed | {"rules": {}}))
    refused(snapshot, place, "made with other chain rules than its list says")
    head = listed["head"] | {"stateRoot": "0x" + "22" * 32}
    (snapshot / "backup.json").write_text(json.dumps(listed | {"head": head}))
    refused(snapshot, place, "its list says block 673")


def test_a_place_with_other_content_is_not_changed(chain, place):
    (place / "folder").mkdir()
    (place / "folder" / "letter").write_text("dear")
    (place / "file.tar.gz").write_text("dear")
    before = state_of(place)
    for form in FORMS:
        done = run("snapshot", "create", place / form, "--datadir", chain / "data", check=False)
        assert done.returncode == 2, done.stderr
    assert state_of(place) == before
    done = run("snapshot", "create", chain / "folder", "--datadir", chain / "data", check=False)
    assert done.returncode == 2 and "has a complete snapshot" in done.stderr


def test_a_name_of_another_kind_of_archive_is_refused(chain, place):
    """It would become a folder with the name of a file."""
    done = run("snapshot", "create", place / "monday.tar", "--datadir", chain / "data", check=False)
    assert done.returncode == 2 and "ends in .tar.gz or .tgz, or the name of a folder" in done.stderr, done.stderr
    (place / "monday.zip").write_bytes(b"x")
    refused(place / "monday.zip", place, "is not a snapshot", code=2)
    assert [file.name for file in place.iterdir() if file.name != "restored"] == ["monday.zip"]


@pytest.mark.parametrize("form", FORMS)
def test_a_full_disk_is_named_and_the_same_command_continues(chain, place, form):
    largest = max(file.stat().st_size for file in (chain / "data" / "db").glob("*.sst"))
    shutil.copytree(chain / "data", place / "data")
    before = run("db", "stats", "--json", "--datadir", place / "data").stdout
    with largest_file(largest // 2):
        done = run("snapshot", "create", place / form, "--datadir", place / "data", check=False)
    assert done.returncode == 1 and "File too large" in done.stderr, done.stderr
    assert run("db", "stats", "--json", "--datadir", place / "data").stdout == before
    assert run("snapshot", "verify", place / form, check=False).returncode != 0
    run("snapshot", "create", place / form, "--datadir", place / "data")
    with largest_file(largest // 2):
        done = run("snapshot", "restore", place / form, "--datadir", place / "restored", check=False)
    assert done.returncode == 1 and "File too large" in done.stderr and not (place / "restored" / "db").exists(), done.stderr
    run("snapshot", "restore", place / form, "--datadir", place / "restored")


def is_whole(snapshot):
    return snapshot.is_file() or (snapshot / "backup.json").exists() and not (snapshot / "snapshot.unfinished").exists()


def remove(snapshot):
    shutil.rmtree(snapshot) if snapshot.is_dir() else snapshot.unlink()


@pytest.mark.parametrize("form", FORMS)
def test_a_snapshot_killed_while_it_is_created_can_be_continued(chain, place, form, dice):
    shutil.copytree(chain / "data", place / "data")
    snapshot, create = place / form, ("snapshot", "create", place / form, "--datadir", place / "data")
    longest, landed, unfinished = timed(*create), 0, 0
    for _ in rounds(KILLS, lambda: landed):
        if is_whole(snapshot):
            remove(snapshot)
        landed += killed(dice, longest, *create)
        assert run("db", "stats", "--json", "--datadir", place / "data", check=False).returncode == 0
        if is_whole(snapshot):
            assert run("snapshot", "verify", snapshot, "--trust-hash", HEAD).stdout.startswith("sound")
        else:
            unfinished += any(place.glob("*.unfinished")) or (snapshot / "snapshot.unfinished").exists()
    if not is_whole(snapshot):
        run(*create)
    assert run("snapshot", "verify", snapshot, "--trust-hash", HEAD).stdout.startswith("sound")
    assert sorted(file.name for file in place.iterdir()) == sorted([form, "data"])
    tell("kill", f"snapshot create, {form}", KILLS, f"{landed} while it ran, {unfinished} left an unfinished snapshot; the next one "
         "was whole, the chain as before", "0, 0, 0")


@pytest.mark.parametrize("form", FORMS)
def test_a_restore_that_is_killed_leaves_nothing_or_the_whole_chain(chain, place, form, dice):
    database, restore = place / "data" / "db", ("snapshot", "restore", chain / form, "--datadir", place / "data")
    longest, landed, unfinished = timed(*restore), 0, 0
    for _ in rounds(KILLS, lambda: landed):
        if database.exists():
            shutil.rmtree(place / "data")
        landed += killed(dice, longest, *restore)
        unfinished += (place / "data" / "db.restoring").exists()
        if database.exists():
            assert run("db", "verify", "--datadir", place / "data").stdout.startswith("sound")
    if not database.exists():
        run(*restore)
    assert run("db", "verify", "--datadir", place / "data").stdout.startswith("sound")
    assert not (place / "data" / "db.restoring").exists()
    tell("kill", f"snapshot restore, {form}", KILLS, f"{landed} while it ran, {unfinished} left an unfinished database; the next one "
         "was whole", "0, 0, 0")


def test_a_chain_without_certificates_is_reported_and_a_snapshot_is_a_backup(place):
    data = DATA / "execution-apis"
    blocks = unpacked(data / "chain.rlp.gz", place / "chain.rlp")
    run("import", "--genesis", data / "genesis.json", "--datadir", place / "data", blocks)
    run("snapshot", "create", place / "folder", "--datadir", place / "data")
    assert "nothing in this chain certifies its head" in run("snapshot", "verify", place / "folder").stdout
    run("db", "backup", "verify", place / "folder")
    run("db", "restore", place / "folder", "--datadir", place / "restored")
    stated = run("snapshot", "restore", place / "folder", "--datadir", place / "other", "--without-state").stdout
    assert "not computed again" in stated, stated
