"""The project's performance targets, compared with the figures of a run."""

import collections
import json
from typing import NamedTuple


class Target(NamedTuple):
    """A figure, its required and its desired value: minimums, or maximums if less is better."""

    what: str
    value: float | None
    must: float
    aim: float
    is_less_better: bool = False

    def verdict(self):
        if self.value is None:
            return "not measured"
        reaches = (lambda bound: self.value <= bound) if self.is_less_better else (lambda bound: self.value >= bound)
        return "aim reached" if reaches(self.aim) else "met" if reaches(self.must) else "**missed**"


def report_targets(targets):
    """Every target with the measured figure, and how many are met."""
    print("\nTargets:\n")
    print("| Target | must reach | aim | measured | |")
    print("|---|--:|--:|--:|---|")
    for target in targets:
        sign = "≤" if target.is_less_better else "≥"
        shown = "-" if target.value is None else f"{target.value:.2f}"
        print(f"| {target.what} | {sign} {round(target.must, 3):,} | {sign} {round(target.aim, 3):,} | {shown} | {target.verdict()} |")
    verdicts = collections.Counter(target.verdict().strip("*") for target in targets)
    print(f"\n{len(targets)} targets: {', '.join(f'{count} {verdict}' for verdict, count in verdicts.items())}")


def print_measurements(measure, report, targets, options):
    """Measures, and prints the report and the targets; also writes the figures to the file `--json`."""
    found = measure(options)
    print(report(found))
    report_targets(list(targets(found)))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
