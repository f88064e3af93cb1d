"""The end of a node: a stop while keys are derived, signals while the node starts, and the processes of its plugins
after kill -9.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

import wire
from figures import tell
from tenon_node import BINARY, ROOT, Node, folder
from test_memory import metrics

ACCOUNT = "0x" + "11" * 20
#: Its key takes far longer to derive than a stop may take.
SLOW_KEY = {
    "address": "11" * 20,
    "version": 3,
    "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
    "crypto": {
        "cipher": "aes-128-ctr",
        "cipherparams": {"iv": "60" * 16},
        "ciphertext": "53" * 32,
        "kdf": "scrypt",
        "kdfparams": {"dklen": 32, "n": 262144, "r": 8, "p": 16, "salt": "ae" * 32},
        "mac": "51" * 32,
    },
}
#: Every stop here ends in this time, although what it finds running takes longer.
MAX_STOP = 6
#: The time limit of a stop with the default settings.
STOP_LIMIT = 30
ENTRY = "static TenonReply start("
LOADING = "__attribute__((constructor)) static void hang(void) {"
#: Where a plugin hangs, and whether it uses the processor meanwhile.
HANGS = {
    "while loaded, computing": (LOADING, "for (volatile int i = 0;; i++) {}"),
    "while loaded, waiting": (LOADING, "for (;;) pause();"),
    "in its start, waiting": (ENTRY, "for (;;) pause();"),
}
#: Name of a thread that hangs in a plugin. A plugin may name its thread, but not create a file, in a process of its own.
HANGING = "hanging"
#: Name of a thread that derives a key.
DERIVING = "key derivation"


def write_secret(path, text):
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


def with_slow_key(data):
    write_secret(data / "keystore" / "UTC--x--1", json.dumps(SLOW_KEY))
    data.chmod(0o700)


def library_of(path):
    return path / "plugins" / "libhanging.so"


def hanging_plugin(path, where):
    """Compiles the example in C so that it hangs; returns its library."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("the plugin of the test is written in C")
    example = (ROOT / "plugins" / "examples" / "c_hello" / "c_hello.c").read_text()
    place, loop = HANGS[where]
    code = f'prctl(PR_SET_NAME, "{HANGING}"); {loop}'
    if place == LOADING:
        example = f"{example}\n{LOADING}\n    {code}\n}}\n"
    else:
        before, after = example.split(place)
        head, body = after.split("{\n", 1)
        example = f"{before}{place}{head}{{\n    {code}\n{body}"
    source, library = path / "hanging.c", library_of(path)
    library.parent.mkdir(mode=0o755)
    source.write_text("#include <sys/prctl.h>\n#include <unistd.h>\n" + example)
    subprocess.run([compiler, "-w", "-shared", "-fPIC", "-I", ROOT / "plugins/sdk/include", "-o", library, source], check=True)
    return library


@contextlib.contextmanager
def starting(path, *arguments):
    """A node that does not finish its start, and its log."""
    log = path / "starting.log"
    command = [str(BINARY), "dev", "--datadir", path / "data", "--http.port", "0", "--ws.port", "0", *arguments]
    with open(log, "wb") as sink, subprocess.Popen(command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL) as process:
        try:
            yield process, log
        finally:
            process.kill()


def wait_until(found, what, timeout=30):
    deadline = time.monotonic() + timeout
    while not (value := found()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return value


def thread_names(pid):
    names = []
    with contextlib.suppress(OSError):
        for thread in pathlib.Path(f"/proc/{pid}/task").glob("*/comm"):
            names.append(thread.read_text().strip())
    return names


def wait_for_thread(name, process, log, library=None):
    """Waits until a process has a thread of this name: the node, or with `library` a process that serves this library."""
    processes = lambda: children(library) if library else [process.pid]
    has_thread = lambda: any(name in thread_names(pid) for pid in processes())
    wait_until(lambda: process.poll() is not None or has_thread(), f"no thread has the name {name}", 120)
    assert process.poll() is None, (process.poll(), log.read_text()[-2000:])


def ended(process, *signals):
    """Sends the signals, and returns the exit code and the seconds until the end."""
    begun = time.monotonic()
    for number in signals:
        process.send_signal(number)
    return process.wait(60), time.monotonic() - begun


def children(library):
    """The processes that serve this library, without those that have ended and are not yet collected."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0") if process.name.isdigit() else []
            if b"plugin-child" in words and os.fsencode(library) in words:
                found.append(int(process.name))
    return found


@contextlib.contextmanager
def starting_with(path, where, isolation):
    """A node in whose start a plugin has begun to hang, and its log."""
    library = hanging_plugin(path, where)
    settings = path / "tenon.toml"
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    settings.write_text(f'[plugins]\ntrusted = ["{digest}"]\n[plugins.hanging]\nisolation = "{isolation}"\n')
    settings.chmod(0o600)
    with starting(path, "--config", settings, "--plugins", library.parent) as (process, log):
        wait_for_thread(HANGING, process, log, library if isolation == "process" else None)
        yield process, log


def test_a_stop_does_not_wait_for_a_key_derivation():
    with folder() as path:
        with_slow_key(path / "data")
        with Node("dev", "--grace", "0s", datadir=path / "data") as node:
            with wire.UnixSocket(node) as connection:
                connection.send_message(wire.request("personal_unlockAccount", ACCOUNT, "pw"))
                wait_for_thread(DERIVING, node.process, node.log_path)
                code, took = ended(node.process, signal.SIGTERM)
            log = node.log_path.read_text()
        assert code == 0 and took < MAX_STOP, (code, took, log[-2000:])
        assert "stopped" in log and "panicked" not in log
        with Node("dev", datadir=path / "data") as node:
            assert node.call("eth_blockNumber") == "0x0"
            assert node.stop() == 0
    tell("process", "a stop while a key is derived", 1, f"0 after {took:.1f} s", f"0 within {MAX_STOP} s")


def test_a_start_that_unlocks_a_key_ends_at_the_first_signal():
    took = []
    with folder() as path:
        with_slow_key(path / "data")
        write_secret(path / "password", "pw\n")
        for number in (signal.SIGTERM, signal.SIGINT):
            with starting(path, "--unlock", ACCOUNT, "--password", path / "password") as (process, log):
                wait_for_thread(DERIVING, process, log)
                code, seconds = ended(process, number)
                took.append(seconds)
                assert code == 0 and seconds < MAX_STOP, (number, code, seconds, log.read_text()[-2000:])
                assert "stopped while starting" in log.read_text()
        with Node("dev", datadir=path / "data") as node:
            assert node.stop() == 0
    tell("process", "SIGTERM and SIGINT while the start derives a key", 2, f"0 after {max(took):.1f} s", f"0 within {MAX_STOP} s")


@pytest.mark.parametrize("where", HANGS)
@pytest.mark.parametrize("isolation", ("process", "in-process"))
def test_a_start_in_which_a_plugin_hangs_ends_at_the_first_signal(where, isolation):
    with folder() as path:
        with starting_with(path, where, isolation) as (process, log):
            code, took = ended(process, signal.SIGTERM)
            # A library that hangs in the node's process while it is loaded holds the loader's lock, which the end of a thread may
            # need. Then the time limit of a stop ends the process.
            holds_lock = isolation == "in-process" and where.startswith("while loaded")
            in_time = (code, took < MAX_STOP) == (0, True)
            at_limit = holds_lock and code == 130 and took < STOP_LIMIT + MAX_STOP
            assert in_time or at_limit, (code, took, log.read_text()[-2000:])
        wait_until(lambda: not children(library_of(path)), "the plugin's process outlives the node", 5)
    tell("process", f"SIGTERM while a plugin hangs {where} ({isolation})", 1, f"{code} after {took:.1f} s", f"0 within {MAX_STOP} s")


@pytest.mark.parametrize("isolation", ("process", "in-process"))
def test_a_second_signal_ends_a_start_immediately(isolation):
    with folder() as path:
        with starting_with(path, "while loaded, computing", isolation) as (process, log):
            # Without a pause, because the stop after the first signal can end within a second.
            code, took = ended(process, signal.SIGTERM, signal.SIGINT)
            assert code == 130 and took < 2, (code, took, log.read_text()[-2000:])
    tell("process", f"a second signal while a plugin hangs ({isolation})", 1, f"130 after {took:.1f} s", "130 within 2 s")


def test_a_second_signal_ends_a_node_immediately():
    endless = wire.request("eth_call", {"data": "0x5b600056"}, "latest")
    options = ["--grace", "30s", "--rpc.gascap", "0", "--rpc.evmtimeout", "60s", "--metrics", "--metrics.port", "0"]
    with Node("dev", *options) as node:
        with wire.Http(node) as connection:
            connection.send_message(endless)
            wait_until(lambda: metrics(node)['tenon_rpc_work_jobs{state="running"}'] > 0, "the call does not run")
            node.process.send_signal(signal.SIGTERM)
            wait_until(lambda: "stopping; a second signal" in node.log_path.read_text(), "the node does not stop")
            code, took = ended(node.process, signal.SIGTERM)
        log = node.log_path.read_text()
    assert code == 130 and took < 2, (code, took)
    assert "second signal" in log
    tell("process", "a second signal while a call runs", 1, f"130 after {took:.1f} s", "130 within 2 s")


def test_a_plugin_that_hangs_while_it_is_loaded_ends_with_a_killed_node():
    with folder() as path:
        library = hanging_plugin(path, "while loaded, computing")
        with starting(path, "--plugins", library.parent) as (process, log):
            wait_for_thread(HANGING, process, log, library)
            process.kill()
            process.wait()
        left = lambda: children(library)
        try:
            begun = time.monotonic()
            wait_until(lambda: not left(), "the plugin's process outlives the node", 5)
            took = time.monotonic() - begun
        finally:
            for pid in left():
                os.kill(pid, signal.SIGKILL)
    tell("process", "kill -9 of a node while a plugin is loaded", 1, f"its process ended after {took:.1f} s", "within 5 s")
