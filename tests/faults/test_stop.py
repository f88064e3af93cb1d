"""The end of a node: a stop while keys are derived, signals while the node starts, and the processes of its plugins
after kill -9.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from figures import tell
from tenon_node import BINARY, ROOT, folder

ENTRY = "static TenonReply start("
LOADING = "__attribute__((constructor)) static void hang(void) {"
#: Where a plugin hangs, and whether it uses the processor meanwhile.
HANGS = {
    "while loaded, computing": (LOADING, "for (volatile int i = 0;; i++) {}"),
    "while loaded, waiting": (LOADING, "for (;;) pause();"),
    "in its start, waiting": (ENTRY, "for (;;) pause();"),
}


def library_of(path):
    return path / "plugins" / "libhanging.so"


def hanging_plugin(path, where):
    """Compiles the example in C so that it hangs; returns its library."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("the plugin of the test is written in C")
    example = (ROOT / "plugins" / "examples" / "c_hello" / "c_hello.c").read_text()
    place, code = HANGS[where]
    if place == LOADING:
        example = f"{example}\n{LOADING}\n    {code}\n}}\n"
    else:
        before, after = example.split(place)
        head, body = after.split("{\n", 1)
        example = f"{before}{place}{head}{{\n    {code}\n{body}"
    source, library = path / "hanging.c", library_of(path)
    library.parent.mkdir(mode=0o755)
    source.write_text("#include <unistd.h>\n" + example)
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


def children(library):
    """The processes that serve this library, without those that have ended and are not yet collected."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0") if process.name.isdigit() else []
            if b"plugin-child" in words and os.fsencode(library) in words:
                found.append(int(process.name))
    return found


def test_a_plugin_that_hangs_while_it_is_loaded_ends_with_a_killed_node():
    with folder() as path:
        library = hanging_plugin(path, "while loaded, computing")
        with starting(path, "--plugins", library.parent) as (process, _):
            wait_until(lambda: children(library), "the plugin does not start")
            time.sleep(1)
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
