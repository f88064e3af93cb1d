#!/usr/bin/env python3
"""Runs the public execution-apis cases against the real program and says which answers differ, and where first.

The part of `make conformance` that needs a node; TENON_BIN names the program (default dist/tenon).
"""

import argparse
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import execution_apis  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="a folder laid out like execution-apis/tests instead of this project's files")
    parser.add_argument("--filter", default="", help="only cases whose name (method/case) contains this")
    parser.add_argument("--report", help="writes every case and the counts to this file, as JSON")
    return parser.parse_args()


def outcome_of(case, suite, node):
    """A case in the report."""
    if case.left_out:
        return {"name": case.name, "outcome": "not_in_scope", "reason": case.left_out}
    found = execution_apis.problem_of(case, suite, node)
    if found is None:
        return {"name": case.name, "outcome": "passed"}
    return {"name": case.name, "outcome": "failed", "request": found[0], "difference": found[1]}


def reasons_of(outcomes):
    """Number of cases by reason for not being run."""
    reasons = {}
    for outcome in outcomes:
        if outcome["outcome"] == "not_in_scope":
            reasons[outcome["reason"]] = reasons.get(outcome["reason"], 0) + 1
    return reasons


def show(report):
    for outcome in report["cases"]:
        if outcome["outcome"] == "failed":
            print(f"FAILED {outcome['name']}\n    {outcome['difference']}\n    {(outcome['request'] or '')[:300]}")
    for problem in report["transport_problems"]:
        print(f"FAILED {problem['transport']} answers otherwise than HTTP\n    {problem['request'][:300]}")
        print(f"    found  {problem['answer'][:300]}\n    wanted {problem['over_http'][:300]}")
    if report["reasons"]:
        print("\nNot run:")
    for reason, count in sorted(report["reasons"].items()):
        print(f"{count:>6}  {reason}")
    total = report["total"]
    print(f"\nexecution-apis: {total['passed']} passed, {total['failed']} failed, {total['not_in_scope']} not in scope; ", end="")
    print(f"{report['compared_over_transports']} requests over WebSocket and Unix socket, ", end="")
    print(f"{len(report['transport_problems'])} answered otherwise than over HTTP; {report['seconds']:.1f} s")


def main():
    options = arguments()
    start = time.monotonic()
    suite = execution_apis.of_folder(options.data) if options.data else execution_apis.packed()
    suite.cases[:] = [case for case in suite.cases if options.filter in case.name]
    if not suite.cases:
        raise execution_apis.UnusableSuite("no case has this name")
    with execution_apis.serving(suite) as node:
        head = node.call("eth_getBlockByNumber", "latest", False)["hash"]
        if head != suite.head:
            raise execution_apis.UnusableSuite(f"the imported chain ends at {head}, the suite's at {suite.head}")
        outcomes = [outcome_of(case, suite, node) for case in suite.cases]
        problems, compared = execution_apis.transport_problems(suite, node)
    names = ("passed", "failed", "not_in_scope")
    report = {
        "seconds": time.monotonic() - start,
        "total": {name: sum(outcome["outcome"] == name for outcome in outcomes) for name in names},
        "reasons": reasons_of(outcomes),
        "compared_over_transports": compared,
        "transport_problems": [dict(zip(("transport", "request", "answer", "over_http"), each)) for each in problems],
        "cases": outcomes,
    }
    show(report)
    if options.report:
        pathlib.Path(options.report).write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 1 if report["total"]["failed"] or problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (execution_apis.UnusableSuite, OSError, ValueError, KeyError) as error:
        print(f"execution-apis: {error}", file=sys.stderr)
        sys.exit(2)
