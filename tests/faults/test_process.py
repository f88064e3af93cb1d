"""Resources that the system gives a process, or refuses: open files, standard error, pipes, its clock, its socket,
an unwritable folder. The node continues if it can, and otherwise ends with a named error.
"""

import contextlib
import gzip
import json
import os
import pathlib
import resource
import shutil
import subprocess
import time

import pytest

import unwritable
import watch
import wire
from ended import Ended
from figures import tell
from tenon_node import BINARY, DATA, Node, RpcError, folder, run

GENESIS = DATA / "execution-apis" / "genesis.json"
OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
FEW, TOO_FEW = 256, 64


def files(soft, hard):
    """Sets a limit of open files, for `preexec_fn`."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def in_a_block(node, **transaction):
    """Sends a transaction and returns the number of its block."""
    sent = node.call("eth_sendTransaction", {"from": node.call("eth_accounts")[0], "to": OTHER, "gas": hex(5_000_000), **transaction})
    deadline = time.monotonic() + 60
    while (receipt := node.call("eth_getTransactionReceipt", sent)) is None:
        assert time.monotonic() < deadline, "the transaction is not in a block"
        time.sleep(0.01)
    return int(receipt["blockNumber"], 16)


def test_clients_that_use_all_open_files_take_none_from_the_database():
    patient = ("--http.idletimeout", "1h")
    with folder() as path, Node("dev", *patient, datadir=path / "data", preexec_fn=files(FEW, FEW)) as node:
        assert node.call("eth_blockNumber") == "0x0"
        idle = [transport(node) for transport in wire.TRANSPORTS for _ in range(10)]
        for transport in (wire.Http, wire.WebSocket, wire.UnixSocket) * FEW:
            # Surplus connections are closed immediately, a WebSocket during its handshake.
            with contextlib.suppress(OSError, wire.Hung):
                idle.append(transport(node, timeout=2))
        most = wire.open_files(node.process.pid)
        alive = sum(not connection.is_closed(within=0.001) for connection in idle)
        # More than one log and one table of the database can contain, so that further files are needed.
        for _ in range(120):
            height = in_a_block(node, data="0x" + "ab" * 120_000)
        # This client never answers a WebSocket's ping, so on a slow machine its WebSockets time out; and idle
        # connections were closed for later ones of the same client.
        kept = [connection for connection in idle if not isinstance(connection, wire.WebSocket) and not connection.is_closed(within=0.001)]
        assert kept
        assert all("result" in wire.ask(connection, wire.request("eth_blockNumber")) for connection in kept)
        assert "result" in wire.ask(kept[0], wire.request("debug_chaindbCompact"))
        for connection in idle:
            connection.close()
        assert in_a_block(node) == height + 1
        log = node.log_path.read_text(errors="replace")
        assert "Too many open files" not in log and "the limit of open files is too low" in log
        assert most <= FEW and alive >= 30
        assert node.stop() == 0
    tell("process", f"clients that want all of {FEW} open files", 3 * FEW, f"{alive} served, {most} files open at most; {height} blocks of 120 kB made "
                 "meanwhile", "every block made")


def test_the_limit_of_open_files_is_raised_to_its_maximum():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Node("dev", preexec_fn=files(FEW, hard)) as node:
        limits = pathlib.Path(f"/proc/{node.process.pid}/limits").read_text().splitlines()
        soft = next(line.split()[3] for line in limits if line.startswith("Max open files"))
        assert soft == (str(hard) if hard != resource.RLIM_INFINITY else "unlimited")
        assert node.stop() == 0
    tell("process", f"a soft limit of {FEW} open files", 1, f"raised to the hard one, {soft}", "the hard one")


def test_a_node_with_a_low_limit_of_open_files_reports_it():
    with folder() as path:
        refused = run("dev", "--datadir", path / "data", check=False, preexec_fn=files(TOO_FEW, TOO_FEW))
    assert refused.returncode == 1 and "ulimit -n" in refused.stderr and f"{TOO_FEW} files" in refused.stderr, refused.stderr
    tell("process", f"a limit of {TOO_FEW} open files", 1, f"exit code 1: {refused.stderr.strip()}", "refused by name")


@pytest.mark.parametrize("kind", unwritable.KINDS, ids=lambda kind: kind.__name__)
def test_an_unwritable_log_loses_only_lines(kind):
    with kind() as log, Node("dev", "--verbosity", "4", stdout=log, stderr=log) as node:
        for _ in range(20):
            height = in_a_block(node)
        with wire.Http(node) as connection:
            connection.send(b"GET\r\n\r\n")
            connection.receive()
        begun = time.monotonic()
        assert node.stop() == 0
        ending = time.monotonic() - begun
    tell("process", f"a log on a {kind.__name__.replace('_', ' ')}", 1, f"{height} blocks made, ended with 0 in {ending:.1f} s", "exit code 0")


def test_an_error_that_cannot_be_printed_keeps_its_exit_code():
    with folder() as path, unwritable.full_disk() as full:
        command = [str(BINARY), "import", "--genesis", str(GENESIS), "--datadir", str(path / "data"), str(path / "nowhere")]
        ended = subprocess.run(command, stdout=full, stderr=full)
    assert ended.returncode == 2
    tell("process", "an error without a standard error", 1, "exit code 2", "its own exit code, not that of a panic")


def test_a_help_text_that_cannot_be_printed_is_a_failure():
    for flag in ("--help", "--version"):
        with unwritable.full_disk() as full:
            ended = subprocess.run([str(BINARY), flag], stdout=full, stderr=subprocess.PIPE, text=True)
        assert ended.returncode == 1 and "standard output: No space left on device" in ended.stderr, ended
        with unwritable.closed_pipe() as pipe:
            assert subprocess.run([str(BINARY), flag], stdout=pipe).returncode == 0


def test_an_import_from_a_silent_pipe_can_be_stopped():
    with folder() as path:
        pipe = path / "pipe"
        os.mkfifo(pipe)
        whole = unpacked_chain()
        command = [str(BINARY), "import", "--genesis", str(GENESIS), "--datadir", str(path / "data"), str(pipe)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            with open(pipe, "wb") as writer:
                writer.write(whole[: len(whole) // 2])
                writer.flush()
                # The import waits for more input after it has created a folder and read the available input.
                deadline = time.monotonic() + 60
                while not (path / "data" / "db" / "CURRENT").exists():
                    assert time.monotonic() < deadline, "the import has not begun"
                    time.sleep(0.02)
                assert watch.idle_after(process.pid, 60) is not None
                process.terminate()
                begun = time.monotonic()
                code = process.wait(60)
                ending = time.monotonic() - begun
            said = process.stdout.read()
        assert code == 130 and "interrupted" in said, (code, said)
        assert run("db", "verify", "--datadir", path / "data").stdout.startswith("sound")
        assert "head 54 " in run("import", "--datadir", path / "data", DATA / "execution-apis" / "chain.rlp.gz").stdout
    tell("process", "SIGTERM to an import from a silent pipe", 1, f"exit code {code} after {ending:.1f} s at a whole block, continued to the end", "130")


def unpacked_chain():
    return gzip.decompress((DATA / "execution-apis" / "chain.rlp.gz").read_bytes())


ENDLESS = {
    "a genesis": ("run", "--genesis", "/dev/zero"),
    "settings": ("config", "--config", "/dev/zero"),
    "a genesis to check": ("genesis", "verify", "/dev/zero"),
    "blocks": ("import", "--genesis", GENESIS, "/dev/zero"),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_endless_file_is_refused_within_its_memory_bound(kind):
    # The longest accepted genesis, a second time while its buffer grows, and the program itself.
    most = 2 * 256 + 128
    with folder() as path:
        folders = () if kind in ("settings", "a genesis to check") else ("--datadir", str(path / "data"))
        ended = Ended((*ENDLESS[kind], *folders))
    assert ended.code in (1, 2) and "/dev/zero" in ended.words and "panicked" not in ended.words, (ended.code, ended.words)
    assert ended.memory < most, f"{ended.memory:.0f} MB"
    tell("input", f"{kind} without end", 1, f"exit code {ended.code}, {ended.memory:.0f} MB: {ended.words.strip()[:120]}", f"{most} MB")


CLOCK = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The system's clock, moved by as many seconds as a file says. */
int clock_gettime(clockid_t id, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, id, time);
    FILE *file = id == CLOCK_REALTIME ? fopen(getenv("MOVED_BY"), "r") : NULL;
    long seconds;
    if (file) {
        if (fscanf(file, "%ld", &seconds) == 1) time->tv_sec += seconds;
        fclose(file);
    }
    return result;
}
"""


@pytest.mark.parametrize("profile", ("ethereum", "native"))
def test_a_changed_clock_stops_no_chain(profile):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("the clock of the test is written in C")
    day, year = 86_400, 365 * 86_400
    with folder() as path:
        source, library, moved_by = path / "clock.c", path / "clock.so", path / "moved-by"
        source.write_text(CLOCK)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)

        def move(seconds):
            # Replaced as a whole: an empty file would not move the clock.
            (path / "next").write_text(str(seconds))
            (path / "next").rename(moved_by)

        environment = {**os.environ, "LD_PRELOAD": str(library), "MOVED_BY": str(moved_by)}
        moves = [0, -day, day, 0]
        move(0)
        with Node("dev", "--profile", profile, datadir=path / "data", env=environment) as node:
            for seconds in moves:
                move(seconds)
                in_a_block(node)
            assert node.stop() == 0
        move(-year)
        with Node("dev", "--profile", profile, datadir=path / "data", env=environment) as node:
            height = in_a_block(node)
            times = [int(node.call("eth_getBlockByNumber", hex(number), False)["timestamp"], 16) for number in range(height + 1)]
            assert node.stop() == 0
    assert all(earlier < later for earlier, later in zip(times, times[1:])), times
    tell("process", f"a clock moved by {[*moves, -year]} s, {profile}", len(moves) + 1, f"a block after each, times rising over all {height}", "no chain stands still")


def test_a_node_whose_socket_is_removed_continues_and_ends_orderly():
    with Node("dev") as node:
        with wire.UnixSocket(node) as before:
            os.unlink(node.ipc_path)
            assert wire.ask(before, wire.request("eth_chainId"))["result"]
            height = in_a_block(node)
            assert node.stop() == 0
        assert "panicked" not in node.log_path.read_text(errors="replace")
    tell("process", "its socket removed while it runs", 1, f"block {height} made, ended with 0", "exit code 0")


def test_a_stop_takes_as_long_as_its_grace_allows():
    """The call takes longer than the default grace, and the stop longer than ten seconds, its limit of earlier builds."""
    endless = wire.request("eth_call", {"data": "0x5b600056"}, "latest")
    with Node("dev", "--grace", "30s", "--rpc.gascap", "0", "--rpc.evmtimeout", "12s") as node:
        with wire.Http(node) as connection:
            connection.send_message(endless)
            time.sleep(0.5)
            started = time.monotonic()
            code = node.stop(timeout=60)
            took = time.monotonic() - started
            answer = json.loads(connection.receive())
        assert "execution aborted" in wire.code_of(answer)[1], answer
        assert code == 0 and took > 10.5, (code, took)
        assert "the stop took too long" not in node.log_path.read_text()
    tell("process", "a call of 12 s when the node stops with a grace of 30 s", 1, f"answered; ended after {took:.1f} s with {code}", "answered; 0")


def test_a_database_whose_folder_is_replaced_is_unhealthy_and_neither_folder_is_damaged():
    with folder() as path:
        data, moved = path / "data", path / "moved"
        with Node("dev", datadir=data) as node:
            assert in_a_block(node, value="0x1") == 1
            data.rename(moved)
            with Node("dev", datadir=data) as other:
                assert other.stop() == 0
            before = {file: file.read_bytes() for file in (data / "db").iterdir()}

            deadline = time.monotonic() + 60
            while node.health()[0] == 200:
                assert time.monotonic() < deadline, "the node stays healthy"
                time.sleep(0.1)
            assert node.health()[1]["database"]["state"] == "folderReplaced"
            assert node.stop() == 1
            log = node.log_path.read_text()
            assert log.count("was moved away while it was open") == 1 and "no longer the folder that was opened" in log, log
            assert {file: file.read_bytes() for file in (data / "db").iterdir()} == before
        assert "sound: 1 blocks" in run("db", "verify", "--datadir", data).stdout
        assert "sound: 2 blocks" in run("db", "verify", "--datadir", moved).stdout


def test_a_node_that_reads_a_damaged_record_is_unhealthy():
    with folder() as path:
        data = path / "data"
        with Node("dev", datadir=data) as node:
            assert [in_a_block(node, value="0x1") for _ in range(3)] == [1, 2, 3]
        # The start writes the records of the log to tables.
        with Node("dev", datadir=data) as node:
            assert node.health()[0] == 200
            for table in (data / "db").glob("*.sst"):
                with table.open("r+b") as file:
                    file.write(bytes(byte ^ 0x55 for byte in table.read_bytes()[:64]))
            deadline = time.monotonic() + 60
            while node.health()[0] == 200:
                assert time.monotonic() < deadline, "the node stays healthy"
                for number in range(4):
                    with contextlib.suppress(RpcError):
                        node.call("eth_getBlockByNumber", hex(number), True)
            assert node.health()[1]["database"]["state"] == "damaged"
            assert "the database is damaged: stop the node, run `tenon db verify`" in node.log_path.read_text()


def test_a_folder_that_cannot_be_written_is_refused_by_name():
    with folder() as path:
        datadir = path / "data"
        with Node("dev", datadir=datadir) as node:
            in_a_block(node)
            assert node.stop() == 0
        mounting = ["mount", "--bind", str(datadir), str(datadir)]
        if os.geteuid() != 0 or subprocess.run(mounting, capture_output=True).returncode != 0:
            tell("folder", "of a disk that can only be read", 0, "mounting one needs root", "refused by name", left_out=True)
            pytest.skip("mounting a disk that can only be read needs root")
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", str(datadir)], check=True)
            commands = [("run", "--http.port", "0"), ("dev", "--http.port", "0"), ("import", DATA / "execution-apis" / "chain.rlp.gz"), ("db", "verify")]
            for command in commands:
                refused = run(*command, "--datadir", datadir, check=False, timeout=60)
                assert refused.returncode == 3 and "read-only" in refused.stderr.lower() and str(datadir) in refused.stderr, (command, refused)
        finally:
            subprocess.run(["umount", "-l", str(datadir)], check=True)
        assert run("db", "verify", "--datadir", datadir).stdout.startswith("sound")
    tell("folder", "of a disk that can only be read", len(commands), f"exit code 3: {refused.stderr.strip()}", "refused by name")
