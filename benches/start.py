"""Time of `tenon dev` to its first answer, and its memory when idle."""

import socket
import statistics
import time

import servers
from targets import Target

IDLE_SECONDS = 3
REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}\n'


def first_answer(datadir):
    """Seconds from the start of the process to the first answer, and the node's status after some idle time."""
    begun = time.monotonic()
    with servers.tenon(datadir, core=None) as server:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(server.endpoints["Unix"][1])
            client.sendall(REQUEST)
            assert b'"result"' in client.recv(4096)
        seconds = time.monotonic() - begun
        time.sleep(IDLE_SECONDS)
        return seconds, servers.status(server.process.pid)


def run(folder, times=5):
    """Medians of several starts in new folders."""
    runs = [first_answer(folder / f"start-{number}") for number in range(times)]
    return {
        "seconds": statistics.median(seconds for seconds, _ in runs),
        "rss": statistics.median(status["rss"] for _, status in runs),
        "threads": runs[0][1]["threads"],
        "files": runs[0][1]["files"],
    }


def report(found):
    """The results as text."""
    print(
        f"\nStart to first answer {found['seconds']:.3f} s, idle memory {found['rss']:.0f} MB, {found['threads']} threads, "
        f"{found['files']} open files (medians of fresh `tenon dev`)"
    )


def targets(found):
    """Rows of the table of targets."""
    yield Target("start to first answer, s", found["seconds"], 0.3, 0.2, is_less_better=True)
    yield Target("idle memory, MB", found["rss"], 80, 60, is_less_better=True)
