"""Runs a check of `make lint` on a repository that a test makes."""

import pathlib
import subprocess
import sys

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"


def check(script, folder, files):
    """Runs the script in a repository with these files; returns its exit code and output."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    subprocess.run(["git", "-C", str(folder), "init", "-q"], check=True)
    subprocess.run(["git", "-C", str(folder), "add", "."], check=True)
    done = subprocess.run([sys.executable, str(SCRIPTS / script)], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr
