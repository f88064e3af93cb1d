"""Temporary data folders of development networks: a killed node's folder is removed when the next one starts."""

import os
import subprocess
import time

from tenon_node import BINARY, folder


def started(temporary):
    """A `tenon dev` without its own data folder, and the folder that it created."""
    before = set(temporary.iterdir())
    environment = {**os.environ, "TMPDIR": str(temporary)}
    command = [str(BINARY), "dev", "--http.port", "0", "--ws.port", "0"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while True:
        made = [path for path in set(temporary.iterdir()) - before if (path / "endpoints.json").exists()]
        if made:
            return process, made[0]
        assert process.poll() is None and time.monotonic() < deadline, "it did not start"
        time.sleep(0.01)


def test_folders_of_killed_nodes_are_removed_and_those_of_running_ones_stay():
    with folder() as temporary:
        processes = []
        try:
            killed, left = started(temporary)
            processes.append(killed)
            killed.kill()
            killed.wait()
            assert left.exists()
            stranger = temporary / "tenon-dev-stranger"
            stranger.mkdir()

            running, kept = started(temporary)
            processes.append(running)
            assert not left.exists(), "the killed node's folder"
            last, own = started(temporary)
            processes.append(last)
            assert kept.exists() and own.exists() and stranger.exists(), "a folder without an owner's file is not ours"

            last.terminate()
            assert last.wait(30) == 0 and not own.exists()
            assert kept.exists()
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
