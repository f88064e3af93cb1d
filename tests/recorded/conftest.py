"""The report of the suite: how many answers of every method equal the recorded ones."""

import collections
import json
import pathlib

import comparison

OUTCOMES = ("equal", "listed", "different", "missing", "skipped")
_tallies = []


def pytest_addoption(parser):
    parser.addoption("--report-folder", help="write every difference of every file there, as JSON")


def keep(tally, config):
    """Prints a file's counts at the end; fails if they have problems."""
    _tallies.append(tally)
    folder = config.getoption("--report-folder")
    if folder:
        found = [
            {**{name: case.get(name) for name in ("id", "method", "raw", "params", "tags")}, "differences": [d._asdict() for d in differences]}
            for case, differences in tally.failures
        ]
        path = pathlib.Path(folder) / f"{tally.file.replace('/', '-')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1))
    problems = tally.problems()
    assert not problems, problems


def pytest_terminal_summary(terminalreporter):
    methods = collections.defaultdict(collections.Counter)
    files = {}
    for tally in _tallies:
        files[tally.file] = [tally.total(outcome) for outcome in OUTCOMES]
        for method, counts in tally.methods.items():
            methods[method].update(counts)
    rows = [("method", *OUTCOMES), *((name, *(counts[o] for o in OUTCOMES)) for name, counts in sorted(methods.items()))]
    rows += [("file", *OUTCOMES), *((name, *counts) for name, counts in files.items())]
    rows.append(("all", *(sum(column) for column in zip(*files.values()))))
    if files:
        terminalreporter.section("recorded answers")
        for name, *cells in rows:
            terminalreporter.write_line(f"{name:44}" + "".join(f"{cell:>11}" for cell in cells))
        for entry in comparison.Listed().missing:
            terminalreporter.write_line(f"missing: {entry['method']}: {entry['reason']}")
