"""Commands that are killed at a random time."""

import subprocess
import time

from tenon_node import BINARY, run

MAX_MORE = 40
"""Additional kills until one has hit the command, whose duration is not known in advance."""


def rounds(kills, has_hit):
    """Counts to `kills`, and continues until a kill has hit the command; fails if none does."""
    done = 0
    while done < kills or not has_hit():
        assert done < kills + MAX_MORE, "no kill hit the command: the test has shown nothing"
        yield done
        done += 1


def timed(*arguments):
    """Runs a command to its end; returns how many seconds it took."""
    begun = time.monotonic()
    run(*arguments)
    return time.monotonic() - begun


def killed(dice, longest, *arguments):
    """Kills a command within this many seconds; returns whether it was still running."""
    process = subprocess.Popen([str(BINARY), *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(dice.uniform(0, longest))
    is_running = process.poll() is None
    process.kill()
    process.wait()
    return is_running
