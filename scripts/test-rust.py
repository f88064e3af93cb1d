#!/usr/bin/env python3
"""Runs the tests of all crates like `cargo test --workspace`, but several test programs at a time: most of them wait for timers,
sockets and processes, so that one program alone leaves the cores idle.

Prints the output of each program once it has ended. Exits with 1 if a program failed.

  scripts/test-rust.py [--programs 3]
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CARGO = [str(ROOT / "scripts" / "cargo.sh"), "test", "--workspace"]


def test_programs():
    """Builds the test programs. Returns each with the folder of its crate, where cargo would start it."""
    command = [*CARGO, "--no-run", "--message-format=json-render-diagnostics"]
    build = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if build.returncode:
        sys.exit(build.returncode)
    messages = [json.loads(line) for line in build.stdout.splitlines()]
    return [
        (message["executable"], pathlib.Path(message["manifest_path"]).parent)
        for message in messages
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]
    ]


def environment(program):
    """The environment that cargo sets for a program: the folders of its shared libraries."""
    built = pathlib.Path(program).parent
    sysroot = subprocess.check_output(["rustc", "--print", "sysroot"], text=True).strip()
    folders = [str(built), str(built.parent), f"{sysroot}/lib", os.environ.get("LD_LIBRARY_PATH", "")]
    return os.environ | {"CARGO_TARGET_DIR": str(built.parent.parent), "LD_LIBRARY_PATH": ":".join(filter(None, folders))}


def run(command, folder, variables):
    """Returns whether the command succeeded, its output, and its duration in seconds."""
    begun = time.monotonic()
    done = subprocess.run(command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode == 0, done.stdout.decode(errors="replace"), time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=3, help="that run at a time")
    options = parser.parse_args()

    programs = test_programs()
    if not programs:
        sys.exit("no test program was built")
    variables = environment(programs[0][0])
    failed = []
    with concurrent.futures.ThreadPoolExecutor(options.programs) as pool:
        jobs = {pool.submit(run, [*CARGO, "--doc"], ROOT, dict(os.environ)): "documentation"}
        jobs |= {pool.submit(run, [program], folder, variables): program for program, folder in programs}
        for job in concurrent.futures.as_completed(jobs):
            succeeded, output, seconds = job.result()
            print(f"     Ran {jobs[job]} in {seconds:.1f} s\n{output}", flush=True)
            if not succeeded:
                failed.append(jobs[job])
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
