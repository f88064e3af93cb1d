"""Runs benches of the Rust crates and reads their results."""

import json
import re
import subprocess

import servers


def run(package, bench, names, group=None):
    """Runs the named benches of a crate. By name: seconds per iteration, and elements per second if the bench states
    how many an iteration has."""
    pattern = f"^{f'{re.escape(group)}/' if group else ''}({'|'.join(map(re.escape, names))})$"
    command = [str(servers.ROOT / "scripts" / "cargo.sh"), "bench", "-q", "-p", package, "--bench", bench, "--", pattern]
    done = subprocess.run(command, capture_output=True, text=True, cwd=servers.ROOT)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return {name: read(servers.TARGET / "criterion" / (group or "") / name / "new") for name in names}


def read(folder):
    seconds = json.loads((folder / "estimates.json").read_text())["mean"]["point_estimate"] * 1e-9
    elements = (json.loads((folder / "benchmark.json").read_text())["throughput"] or {}).get("Elements")
    return {"seconds": seconds, "per_second": elements and elements / seconds}
