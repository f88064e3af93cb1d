"""Subscriptions, filters and the pool while blocks arrive: replayed like on the reference, step by step."""

import pytest

import chains
import comparison
import conftest
import transcripts

FLOWS = (
    ("local", "transcript-filters"),
    ("local", "transcript-subscriptions"),
    ("local", "transcript-pool"),
    ("reorg", "transcript"),
)
RULES = comparison.Rules()


@pytest.mark.parametrize(("chain", "name"), FLOWS, ids=[f"{chain}/{name}" for chain, name in FLOWS])
def test_the_flow_equals_the_recorded_one(chain, name, pytestconfig):
    file = f"{chain}/{name}"
    tally = comparison.Tally(file)
    with chains.prepared(chain, with_blocks=False) as path, chains.node_with(path) as node:
        player = transcripts.Player(node, path, transcripts.blocks_of(chain))
        for number, step in enumerate(comparison.recorded(file), 1):
            field, outcome = player.play(step)
            if field:
                case = {"id": number, "method": step.get("method", step["do"]), "params": step.get("params"), "response": step[field]}
                tally.add(case, outcome, RULES.differences(case, outcome))
        player.close()
    conftest.keep(tally, pytestconfig)
