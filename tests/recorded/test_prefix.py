"""Addresses with the prefix `xdc` in parameters.

The answers were recorded from a node that also writes this prefix. This node reads both prefixes and writes `0x`, which
is the reference's default; the tests convert recorded addresses to `0x` before comparing.
"""

import json
import re

import chains
import comparison
import conftest

RULES = comparison.Rules()
ADDRESS = re.compile(r'"xdc([0-9a-f]{40})"')


def with_usual_prefix(case):
    """The case with the default form of addresses in its answer; other texts are unchanged."""
    answer = ADDRESS.sub(r'"0x\1"', json.dumps(case["response"]))
    return {**case, "response": json.loads(answer)}


def test_an_address_is_accepted_with_either_prefix(pytestconfig):
    tally = comparison.Tally("local/xdc-prefix")
    with chains.node_of("local") as node:
        chains.ask_all(node, map(with_usual_prefix, comparison.recorded(tally.file)), RULES, tally)
    conftest.keep(tally, pytestconfig)
