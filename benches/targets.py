"""What the project wants its figures to be, held against what a run gave."""

import collections
from typing import NamedTuple


class Target(NamedTuple):
    """A figure, what it must reach and what it should: at least, or at most where less is better."""

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
    """Every target with what was measured beside it, and how many are met."""
    print("\nTargets:\n")
    print("| Target | must reach | aim | measured | |")
    print("|---|--:|--:|--:|---|")
    for target in targets:
        sign = "≤" if target.is_less_better else "≥"
        shown = "-" if target.value is None else f"{target.value:.2f}"
        print(f"| {target.what} | {sign} {target.must} | {sign} {target.aim} | {shown} | {target.verdict()} |")
    verdicts = collections.Counter(target.verdict().strip("*") for target in targets)
    print(f"\n{len(targets)} targets: {', '.join(f'{count} {verdict}' for verdict, count in verdicts.items())}")
