"""Runs the program to its end, and reports its exit and its memory."""

import subprocess
import sys

from tenon_node import BINARY

# The system counts a process's memory before `exec` in its peak, so a process started directly by the tests would have
# at least theirs. Therefore a small process starts it, and reports the peak of its child.
STARTER = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


class Ended:
    """The exit code of `tenon COMMAND`, its standard error, and its peak memory in MB."""

    def __init__(self, command):
        starter = [sys.executable, "-I", "-S", "-c", STARTER, str(BINARY), *map(str, command)]
        done = subprocess.run(starter, capture_output=True, check=True)
        code, memory = map(int, done.stdout.split())
        self.code, self.memory = code, memory / 1024
        self.words = done.stderr.decode(errors="replace")
