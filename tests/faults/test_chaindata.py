"""`tenon import --chaindata`: the reference's data folder (tests/data/native/chaindata) is imported and not changed,
and a damaged one is reported with its problem. TENON_KILLS: number of kills (default 4; the full run is 100)."""

import contextlib
import fcntl
import hashlib
import json
import os
import tarfile

from figures import tell
from kills import dice, killed, kills, rounds, timed
from tenon_node import DATA, folder, run, unpacked

KILLS = kills(4)
HEADS = {
    "local": (673, "0x59412189544e339ef4d4f53c0345b7e641ed242c24119d8e9f94bd8ea81a9a25"),
    "reorg-a": (15, None),
}
GENESIS = {"local": DATA / "chain" / "native-genesis-local.json.gz", "reorg-a": DATA / "native" / "chains" / "reorg.genesis.json.gz"}


@contextlib.contextmanager
def reference_folder(chain):
    """A folder with the reference's data folder `reference` and the chain's genesis file."""
    with folder() as path:
        with tarfile.open(DATA / "native" / "chaindata" / f"{chain}.tar.gz") as archive:
            archive.extractall(path / "reference" / "XDC", filter="data")
        unpacked(GENESIS[chain], path / "genesis.json")
        yield path


def command(path, source="reference"):
    return ["import", "--genesis", path / "genesis.json", "--datadir", path / "data", "--chaindata", path / source]


def state_of(path):
    """Name, time and hash of every file and folder in a folder."""
    found = {}
    for file in sorted(path.rglob("*")):
        content = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
        found[str(file)] = (file.stat().st_mtime_ns, content)
    return found


def head_of(path):
    """The height of the data folder's chain; 0 if the import was killed before it created a database."""
    if not (path / "data" / "db" / "CURRENT").exists():
        return 0
    return json.loads(run("db", "stats", "--json", "--datadir", path / "data").stdout)["head"]["number"]


def refused(path, code, *words, source="reference"):
    """Checks that the import is refused with these words and does not change the reference's folder."""
    before = state_of(path / "reference")
    done = run(*command(path, source), check=False)
    assert done.returncode == code, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert state_of(path / "reference") == before
    return done


def test_a_folder_of_the_reference_is_imported_and_not_changed():
    for chain, (number, head) in HEADS.items():
        with reference_folder(chain) as path:
            before = state_of(path / "reference")
            done = run(*command(path))
            assert f"head {number} {head or '0x'}" in done.stdout and f"imported {number} blocks" in done.stdout, done.stdout
            again = run(*command(path, "reference/XDC/chaindata"))
            assert f"head {number} {head or '0x'}" in again.stdout and "imported 0 blocks" in again.stdout, again.stdout
            assert state_of(path / "reference") == before
            assert run("db", "verify", "--datadir", path / "data").stdout.startswith("sound")


def test_an_import_continues_with_the_blocks_that_the_chain_lacks():
    with reference_folder("local") as path:
        run(*command(path))
        run("db", "unwind", "400", "--datadir", path / "data")
        assert "imported 273 blocks" in run(*command(path)).stdout


def test_a_folder_in_use_is_refused_and_nothing_is_created():
    with reference_folder("reorg-a") as path, open(path / "reference" / "XDC" / "chaindata" / "LOCK", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused(path, 3, "a node has it open; stop that node first", "XDC/chaindata")
        assert not (path / "data").exists()


def test_a_folder_of_another_network_is_refused_by_both_genesis_hashes():
    with reference_folder("reorg-a") as path:
        done = run("import", "--network", "mainnet", "--datadir", path / "data", "--chaindata", path / "reference", check=False)
        assert done.returncode == 3 and "not the chain of mainnet (genesis 0x4a9d748bd78a8d0385b67788c2435dcdb914f98a96250b68863a1f8b7642d6b1)" in done.stderr, done.stderr
        assert not (path / "data").exists()


def test_a_folder_without_a_chain_is_refused():
    with reference_folder("reorg-a") as path:
        refused(path, 3, "no chain of a reference node", source="nowhere")
        assert not (path / "data").exists()


def test_a_truncated_table_is_named():
    with reference_folder("reorg-a") as path:
        for table in (path / "reference" / "XDC" / "chaindata").glob("*.ldb"):
            os.truncate(table, table.stat().st_size // 2)
        refused(path, 3, ".ldb: damaged: it is not a complete table: its", "bytes do not end with a footer")
        assert not (path / "data").exists()


def test_a_truncated_log_shortens_the_chain_or_names_the_missing_block():
    with reference_folder("local") as path:
        log = next((path / "reference" / "XDC" / "chaindata").glob("*.log"))
        os.truncate(log, log.stat().st_size // 2)
        done = run(*command(path), check=False)
        assert done.returncode == 0 and " head " in done.stdout and "head 673" not in done.stdout or "is missing" in done.stderr, done
        run("db", "verify", "--datadir", path / "data")


def test_a_damaged_record_of_a_log_is_named():
    with reference_folder("local") as path:
        folder = path / "reference" / "XDC" / "chaindata"
        log = max(folder.glob("*.log"), key=lambda file: file.stat().st_size)
        with open(log, "r+b") as file:
            file.seek(log.stat().st_size // 2)
            file.write(bytes(range(1, 255)))
        refused(path, 3, log.name, "the record at byte", "is damaged")


def test_a_missing_log_is_named():
    with reference_folder("local") as path:
        log = max((path / "reference" / "XDC" / "chaindata").glob("*.log"))
        log.unlink()
        refused(path, 3, log.name, "damaged: the file is missing")
        assert not (path / "data").exists()


def test_what_is_not_a_regular_file_is_refused_without_being_read():
    with reference_folder("local") as path:
        folder = path / "reference" / "XDC" / "chaindata"
        for name in ("LOCK", "CURRENT", next(folder.glob("*.log")).name):
            kept = (folder / name).read_bytes() if (folder / name).exists() else None
            (folder / name).unlink(missing_ok=True)
            os.mkfifo(folder / name)
            refused(path, 3, name if name != "CURRENT" else "no chain")
            (folder / name).unlink()
            if kept is not None:
                (folder / name).write_bytes(kept)


def test_an_import_killed_at_any_moment_can_continue_to_the_head(dice):
    with reference_folder("local") as path:
        before = state_of(path / "reference")
        longest = timed(*command(path))
        landed, heights = 0, []
        for _ in rounds(KILLS, lambda: landed):
            if height := head_of(path):
                run("db", "unwind", str(dice.randrange(height)), "--datadir", path / "data")
            landed += killed(dice, longest, *command(path))
            if height := head_of(path):
                assert run("db", "verify", "--datadir", path / "data").stdout.startswith("sound")
            heights.append(height)
        assert f"head 673 {HEADS['local'][1]}" in run(*command(path)).stdout
        assert state_of(path / "reference") == before
        tell("kill", "import --chaindata of 673 blocks", KILLS, f"{landed} while it ran, {len(set(heights))} different heights; 0 partial, 0 wrong; "
             "continued to the recorded head", "0, 0")
