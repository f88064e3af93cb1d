"""A full disk: the node reports it, makes no further block, keeps answering reads, shuts down normally and loses no
block that it has shown. Once there is space it continues, either after a restart or while running.

The disk is simulated in two ways. A file size limit needs no privileges, but RocksDB does not treat it as a full disk,
so the node continues only after a restart. A small memory file system needs root; its tests are skipped otherwise.
"""

import contextlib
import json
import os
import re
import resource
import subprocess
import time

import pytest

from figures import tell
from tenon_node import DATA, Node, RpcError, folder, run

OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
#: Space that must be free before a node on a full disk continues, bytes.
SPACE = 64 << 20
#: The system's texts for the two kinds of full disk.
FULL = ("File too large", "No space left on device")


@contextlib.contextmanager
def largest_file(limit):
    """The node cannot make a file longer than this; further writes fail like on a full disk.

    They also send SIGXFSZ, which kills a process that has no handler: Python ignores it, but restores it for children.
    """

    def narrowed():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    original = subprocess.Popen

    class Narrowed(original):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, preexec_fn=narrowed, **options)

    subprocess.Popen = Narrowed
    try:
        yield
    finally:
        subprocess.Popen = original


@contextlib.contextmanager
def memory_disk(path, size):
    """A small disk at `path`; returns a function that enlarges it."""
    path.mkdir(parents=True)
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mounting, capture_output=True).returncode != 0:
        tell("disk", f"a disk of {size}", 0, "mounting one needs root", "0 blocks lost", left_out=True)
        pytest.skip("mounting a memory disk needs root")
    try:
        yield lambda larger: subprocess.run(["mount", "-o", f"remount,size={larger}", str(path)], check=True)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(node):
    """Sends large transactions until no more blocks are made; returns the last block that was shown."""
    sender = node.call("eth_accounts")[0]
    data = "0x" + "ab" * 120_000
    shown = None
    for _ in range(2000):
        try:
            sent = node.call("eth_sendTransaction", {"from": sender, "to": OTHER, "data": data, "gas": hex(5_000_000)})
        except RpcError:
            return shown
        deadline = time.monotonic() + 20
        while node.call("eth_getTransactionReceipt", sent) is None:
            if any(word in node.log_path.read_text(errors="replace") for word in FULL):
                return shown
            assert time.monotonic() < deadline, "neither a block nor a word about the disk"
            time.sleep(0.01)
        shown = node.call("eth_getBlockByNumber", "latest", False)
    raise AssertionError("the disk was never full")


def said(node):
    """Number of times that the node has logged that it cannot write."""
    return sum(any(word in line for word in FULL) for line in node.log_path.read_text(errors="replace").splitlines())


def check_reads(node, shown):
    """The node that cannot write answers from what it has, and adds nothing."""
    number = int(shown["number"], 16)
    assert number > 0 and said(node) > 0
    for _ in range(3):
        assert node.call("eth_getBlockByNumber", hex(number), False) == shown
        assert int(node.call("eth_blockNumber"), 16) == number
        assert int(node.call("eth_getBalance", OTHER, "latest"), 16) > 0
        assert node.call("eth_getBlockByNumber", hex(number // 2), True)["transactions"]
    return number


def check_health(node, is_healthy):
    """GET /health reports whether writes work. The node checks again every few seconds."""
    deadline = time.monotonic() + 60
    while (found := node.health())[0] != (200 if is_healthy else 503):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    status, health = found
    assert health["healthy"] == is_healthy and health["actors"]["state"] == "ok", health
    assert health["database"]["state"] == ("ok" if is_healthy else "writesFail"), health
    assert (health["database"]["failingSince"] is None) == is_healthy and health["database"]["lastWrite"] > 0, health
    assert "/" not in json.dumps(health), "no path is shown to callers"
    if not is_healthy:
        log = node.log_path.read_text(errors="replace")
        is_full = FULL[1] in log
        assert health["database"]["spaceNeeded"] == (SPACE if is_full else None), health
        assert (f"free at least {SPACE >> 20} MiB on the disk of the database" in log) == is_full


def check_ending(node):
    """The node ends orderly, without a panic; returns how long that takes."""
    begun = time.monotonic()
    code = node.stop()
    assert code in (0, 1), f"ended with {code}"
    assert "panicked" not in node.log_path.read_text(errors="replace")
    return time.monotonic() - begun


def check_recovered(datadir, shown, number):
    """With free space again: every block that was shown exists, whole, and the chain continues."""
    assert run("db", "verify", "--datadir", datadir).stdout.startswith("sound")
    with Node("dev", datadir=datadir) as node:
        assert node.call("eth_getBlockByNumber", hex(number), False) == shown
        sender = node.call("eth_accounts")[2]
        sent = node.call("eth_sendTransaction", {"from": sender, "to": OTHER, "value": "0x1", "gas": "0x5208"})
        while (receipt := node.call("eth_getTransactionReceipt", sent)) is None:
            time.sleep(0.01)
        assert int(receipt["blockNumber"], 16) > number
        assert node.stop() == 0


def test_a_node_that_cannot_write_serves_reads_and_recovers():
    limit = 4 << 20
    with folder() as path:
        with largest_file(resource.RLIM_INFINITY), Node("dev", datadir=path / "data") as node:
            # Set after the start: the node copies each plugin, which may be larger. Less than the database writes into
            # one file before it begins another.
            resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
            check_health(node, True)
            shown = fill(node)
            check_health(node, False)
            number, ending = check_reads(node, shown), check_ending(node)
        check_recovered(path / "data", shown, number)
        tell("disk", f"files of at most {limit >> 20} MiB", 1, f"full after block {number}, reads served, ended in {ending:.1f} s, lost 0, "
                     "went on at the next start", "0 blocks lost")


def test_a_node_on_a_full_disk_serves_reads_and_recovers():
    with folder() as path, memory_disk(path / "data" / "db", "12m") as enlarge:
        with Node("dev", datadir=path / "data") as node:
            shown = fill(node)
            number, ending = check_reads(node, shown), check_ending(node)
        enlarge("200m")
        check_recovered(path / "data", shown, number)
        tell("disk", "a disk of 12 MiB", 1, f"full after block {number}, reads served, ended in {ending:.1f} s, lost 0, went on at the "
                     "next start", "0 blocks lost")


def test_a_running_node_continues_when_its_disk_has_space_again():
    with folder() as path, memory_disk(path / "data" / "db", "12m") as enlarge:
        with Node("dev", "--health.disk-free", "0", datadir=path / "data") as node:
            check_health(node, True)
            shown = fill(node)
            check_health(node, False)
            number = check_reads(node, shown)
            sender = node.call("eth_accounts")[2]
            transfer = {"from": sender, "to": OTHER, "value": "0x1", "gas": "0x5208"}
            # Still full: requests wait.
            waiting, words = node.call("eth_sendTransaction", transfer), said(node)
            deadline = time.monotonic() + 30
            while said(node) == words and time.monotonic() < deadline:
                time.sleep(0.05)
            assert check_reads(node, shown) == number and node.call("eth_getTransactionReceipt", waiting) is None

            enlarge("200m")
            begun = time.monotonic()
            while node.call("eth_getTransactionReceipt", waiting) is None:
                assert time.monotonic() - begun < 120, "no block though there is room"
                # A development network tries again when a new transaction arrives.
                node.call("eth_sendTransaction", transfer)
                time.sleep(0.5)
            recovery = time.monotonic() - begun
            check_health(node, True)
            last = node.call("eth_getBlockByNumber", "latest", False)
            assert node.call("eth_getBlockByNumber", hex(number), False) == shown
            assert node.stop() == 0
        check_recovered(path / "data", last, int(last["number"], 16))
        tell("disk", "a disk of 12 MiB, made larger under the node", 1, f"full after block {number}, went on after {recovery:.1f} s "
                     "without a new start, lost 0", "0 blocks lost")


@pytest.mark.parametrize(("limit", "file"), ((1_000, "genesis.json"), (50_000, "db/OPTIONS-")))
def test_a_node_that_cannot_write_at_its_start_names_the_file_and_starts_later(limit, file):
    with folder() as path:
        with largest_file(limit):
            stopped = run("dev", "--datadir", path / "data", "--http.port", "0", "--ws.port", "0", check=False)
        assert stopped.returncode == 3, (stopped.returncode, stopped.stderr)
        assert str(path / "data" / file) in stopped.stderr and FULL[0] in stopped.stderr, stopped.stderr
        with Node("dev", datadir=path / "data") as node:
            assert node.stop() == 0


def test_a_start_on_a_full_disk_says_how_much_to_free():
    with folder() as path, memory_disk(path / "data" / "db", "12m") as enlarge:
        with Node("dev", datadir=path / "data") as node:
            shown = fill(node)
            # Killed, so that the next start has logs to write into tables.
            node.kill()
        filler = path / "data" / "db" / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        stopped = run("dev", "--datadir", path / "data", "--http.port", "0", "--ws.port", "0", check=False)
        assert stopped.returncode == 3, (stopped.returncode, stopped.stderr)
        *_, error = stopped.stderr.splitlines()
        freed = re.search(r"database \S+/db: .*No space left on device; free at least (\d+) MiB on its disk, and start again$", error)
        assert freed and int(freed[1]) > SPACE >> 20, error
        filler.unlink()
        enlarge(f"{int(freed[1]) + 12}m")
        check_recovered(path / "data", shown, int(shown["number"], 16))


def test_plugins_whose_copies_did_not_fit_at_the_start_start_once_there_is_space():
    with folder() as path, memory_disk(path / "data" / "plugins", "1m") as enlarge:
        with Node("dev", datadir=path / "data") as node:
            log = lambda: node.log_path.read_text(errors="replace")
            assert "cannot copy the library: No space left on device" in log()
            assert "the module starts once there is space on the disk" in log()
            status, health = node.health()
            assert status == 503 and health["plugins"]["state"] == "failed", health
            with pytest.raises(RpcError, match="does not exist/is not available"):
                node.call("eth_blockNumber")

            enlarge("3g")
            begun = time.monotonic()
            while "enabled" != module_state(path / "data", "eth") or "failed" in run("module", "list", "--datadir", path / "data").stdout:
                assert time.monotonic() - begun < 60, "no plugin started though there is space"
                time.sleep(0.5)
            recovery = time.monotonic() - begun
            assert node.call("eth_blockNumber") == "0x0"
            assert "started, since there is space on the disk now" in log()
            assert node.stop() == 0
        tell("disk", "no space for the plugins at the start", 1, f"they started {recovery:.1f} s after there was space", "without a new start")


def module_state(datadir, name):
    """The state of a module; `None` while the plugin `admin` is off."""
    told = run("module", "info", name, "--json", "--datadir", datadir, check=False)
    return json.loads(told.stdout)["state"] if told.returncode == 0 else None


def check_named(stopped):
    """The command's own error, its last line, names the cause."""
    *_, error = stopped.stderr.splitlines()
    assert stopped.returncode == 1 and error.startswith("tenon: ") and any(word in error for word in FULL), stopped.stderr


def test_an_import_onto_a_full_disk_names_it():
    recorded = DATA / "execution-apis"
    with folder() as path, memory_disk(path / "data" / "db", "1m"):
        check_named(run("import", "--genesis", recorded / "genesis.json", "--datadir", path / "data", recorded / "chain.rlp.gz", check=False))


def test_an_import_that_cannot_write_reports_it_and_can_continue_later():
    recorded = DATA / "execution-apis"
    with folder() as path:
        command = ["import", "--genesis", recorded / "genesis.json", "--datadir", path / "data", recorded / "chain.rlp.gz"]
        with largest_file(200_000):
            stopped = run(*command, check=False)
        check_named(stopped)
        assert run("db", "verify", "--datadir", path / "data").stdout.startswith("sound")
        head = json.loads(run("db", "stats", "--json", "--datadir", path / "data").stdout)["head"]["number"]
        assert head < 54
        assert "head 54 " in run(*command).stdout
        tell("disk", "an import with files of at most 200 kB", 1, f"stopped at block {head} with the reason, then finished", "a whole block")
