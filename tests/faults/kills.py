"""Kills at a random time: how many, the random numbers, and commands that are killed."""

import os
import random
import subprocess
import time

import pytest

from tenon_node import BINARY, run

SEED = int(os.environ.get("TENON_SEED", str(random.SystemRandom().randrange(2**32))))
MAX_MORE = 40
"""Additional kills until one has hit the command or operation, whose duration is not known in advance."""


def kills(usual):
    """The number of kills of a test; `usual` without TENON_KILLS."""
    return int(os.environ.get("TENON_KILLS", usual))


@pytest.fixture
def dice(request):
    """Random numbers that TENON_SEED repeats. The module has its number of kills in `KILLS`."""
    print(f"\n{request.node.name}: TENON_SEED={SEED} TENON_KILLS={request.module.KILLS}")
    return random.Random(SEED)


def rounds(count, has_hit):
    """Counts to `count`, and continues until a kill has hit the command; fails if none does."""
    done = 0
    while done < count or not has_hit():
        assert done < count + MAX_MORE, "no kill hit the command: the test has shown nothing"
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
