#!/usr/bin/env python3
"""Runs the tests of all crates like `cargo test --workspace`, but several test programs at a time: most of them wait for timers,
sockets and processes, so that one program alone leaves the cores idle.

Prints the output of each program once it has ended, and ends a program that hangs. Exits with 1 if a program failed.
`scripts/test.sh rust` builds what the tests need and then runs this.

  scripts/test-rust.py [--programs 3]
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

# Far above the five minutes of the longest program on slow cores, so that only a program that hangs is ended.
LIMIT_SECONDS = 1800
# The programs that take a minute or more start first, so that none of them runs alone at the end.
SLOW_PROGRAMS = (
    "store",
    "suite",
    "native",
    "equals_the_c_library",
    "tenon_native_voting",
    "tenon_native_consensus",
    "simulated",
    "representative",
    "recorded",
    "tenon_network_service",
    "life_cycle",
)
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


def start_order(program):
    """Sorts programs: the longest ones first."""
    name = pathlib.Path(program).name.rpartition("-")[0]
    return SLOW_PROGRAMS.index(name) if name in SLOW_PROGRAMS else len(SLOW_PROGRAMS)


def environment(program):
    """The environment that cargo sets for programs: the toolchain, and the folders of shared libraries."""
    built = pathlib.Path(program).parent
    sysroot = pathlib.Path(subprocess.check_output(["rustc", "--print", "sysroot"], cwd=ROOT, text=True).strip())
    folders = [str(built), str(built.parent), str(sysroot / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    variables = {"CARGO_TARGET_DIR": str(built.parent.parent), "LD_LIBRARY_PATH": ":".join(filter(None, folders))}
    if (cargo := sysroot / "bin" / "cargo").exists():
        variables["CARGO"] = str(cargo)
    # Builds outside this folder, where rust-toolchain.toml does not apply, use the same toolchain.
    if sysroot.parent.name == "toolchains":
        variables["RUSTUP_TOOLCHAIN"] = sysroot.name
    return os.environ | variables


def end_session(session):
    """Ends all processes of a session, also those that have a process group of their own."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # The fields after the name, which is in parentheses and may contain spaces: state, parent, group, session.
            if int(stat.read_text().rpartition(")")[2].split()[3]) == session:
                os.kill(int(stat.parent.name), signal.SIGKILL)
        except (OSError, IndexError):
            pass  # It has ended.


def text_of(output):
    # Read at a position of its own: the program may still write.
    return os.pread(output.fileno(), os.fstat(output.fileno()).st_size, 0).decode(errors="replace")


class Programs:
    """Runs programs, each in a session of its own, so that its child processes can be ended with it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = {}
        self.is_ended = False

    def run(self, name, command, folder, variables):
        """Returns whether the command succeeded, its output, and its duration in seconds."""
        begun = time.monotonic()
        # A file, because a child process that outlives the program would keep a pipe open.
        with tempfile.TemporaryFile() as output:
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
            with self.lock:
                if self.is_ended:
                    return False, "", 0
                process = subprocess.Popen(command, cwd=folder, env=variables, start_new_session=True, **streams)
                self.running[process.pid] = name, output
            try:
                succeeded = process.wait(LIMIT_SECONDS) == 0
            except subprocess.TimeoutExpired:
                succeeded = False
                output.write(b"\nended: it did not finish in time\n")
                output.flush()
            finally:
                end_session(process.pid)
                process.wait()
                with self.lock:
                    self.running.pop(process.pid)
            return succeeded, text_of(output), time.monotonic() - begun

    def end_all(self):
        """Ends the programs that run, and prints their last lines, which name a test that hangs."""
        with self.lock:
            self.is_ended = True
            for session, (name, output) in self.running.items():
                end_session(session)
                print(f"     Ended {name}\n{text_of(output)[-2000:]}", flush=True)


def end_by_signal(*_):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    sys.exit("ended by a signal")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=3, help="number of programs that run at a time")
    options = parser.parse_args()
    # Otherwise several tests would build the same plugins while others load them.
    if "TENON_WORKSPACE_BUILT" not in os.environ:
        sys.exit("run `scripts/test.sh rust`, which builds the plugins first")
    signal.signal(signal.SIGTERM, end_by_signal)
    signal.signal(signal.SIGHUP, end_by_signal)

    built = sorted(test_programs(), key=lambda program: start_order(program[0]))
    if not built:
        sys.exit("no test program was built")
    variables = environment(built[0][0])
    jobs = [("documentation", [*CARGO, "--doc"], ROOT, dict(os.environ))]
    jobs += [(program, [program], folder, variables | {"CARGO_MANIFEST_DIR": str(folder)}) for program, folder in built]
    programs, failed = Programs(), []
    with concurrent.futures.ThreadPoolExecutor(options.programs) as pool:
        try:
            started = {pool.submit(programs.run, *job): job[0] for job in jobs}
            for job in concurrent.futures.as_completed(started):
                succeeded, output, seconds = job.result()
                print(f"     Ran {started[job]} in {seconds:.1f} s\n{output}", flush=True)
                if not succeeded:
                    failed.append(started[job])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            programs.end_all()
            raise
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
