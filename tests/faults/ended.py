"""Runs the program to its end, and says how it ended and what memory that took."""

import subprocess
import sys

from tenon_node import BINARY

# The system counts what a process had before it became another program as that program's: one that the tests started
# themselves would never have less than they. So a small process starts it, and says what its child had.
STARTER = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


class Ended:
    """How `tenon COMMAND` ended, what it said on standard error, and the most memory that it had, MB."""

    def __init__(self, command):
        starter = [sys.executable, "-I", "-S", "-c", STARTER, str(BINARY), *map(str, command)]
        done = subprocess.run(starter, capture_output=True, check=True)
        code, memory = map(int, done.stdout.split())
        self.code, self.memory = code, memory / 1024
        self.words = done.stderr.decode(errors="replace")
