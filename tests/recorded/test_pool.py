"""The pool after the recorded transactions were submitted, one by one, at the head of the chain."""

import chains
import comparison
import conftest

RULES = comparison.Rules()


def test_the_pool_accepts_and_shows_the_recorded_transactions(pytestconfig):
    tallies = []
    with chains.node_of("local") as node:
        for file in ("local/pool-submit", "local/pool-answers"):
            tally = comparison.Tally(file)
            chains.ask_all(node, comparison.recorded(file), RULES, tally)
            tallies.append(tally)
    problems = []
    for tally in tallies:
        try:
            conftest.keep(tally, pytestconfig)
        except AssertionError as error:
            problems.append(str(error))
    assert not problems, "\n".join(problems)
