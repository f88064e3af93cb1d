"""Same chain, same answers: the reference's recorded answers about its chains, compared with this node's."""

import pytest

import chains
import comparison
import conftest

# Files of answers by chain. This is the only place to add a file.
FILES = {
    "local": ("eth", "net", "web3", "rpc", "txpool", "admin", "miner", "debug", "XDPoS", "protocol-http"),
    "staged": ("eth", "net", "web3", "rpc", "txpool", "admin", "miner", "debug", "XDPoS"),
    "v1switch": ("eth", "net", "web3", "rpc", "txpool", "admin", "miner", "debug", "XDPoS"),
    "upgrade": ("eth", "debug", "XDPoS", "scripts"),
    "wide": ("eth", "debug"),
    "wide-old": ("eth", "debug"),
    "wide-fees": ("eth", "debug"),
    "wide-fees-old": ("eth", "debug"),
    "reorg": ("answers",),
}
CASES = [(chain, f"{chain}/{name}") for chain, names in FILES.items() for name in names]
RULES = comparison.Rules()


@pytest.fixture(scope="module")
def node(request):
    with chains.node_of(request.param) as running:
        yield running


@pytest.mark.parametrize(("node", "file"), CASES, ids=[file for _, file in CASES], indirect=["node"], scope="module")
def test_answers_are_the_recorded_ones(node, file, pytestconfig):
    tally = comparison.Tally(file)
    chains.ask_all(node, comparison.recorded(file), RULES, tally)
    conftest.keep(tally, pytestconfig)


def test_a_branch_that_never_was_canonical_is_answered_like_one_that_was(pytestconfig):
    """The recorded node had the shorter branch first, and left it. This node gets the longer branch first, and never
    adopts the shorter one."""
    tally = comparison.Tally("reorg/answers")
    with chains.node_of("reorg-backwards") as node:
        chains.ask_all(node, comparison.recorded(tally.file), RULES, tally)
    conftest.keep(tally, pytestconfig)


def test_every_difference_is_listed_with_its_reason_and_an_existing_file():
    listed = comparison.Listed()
    known = {str(path.relative_to(comparison.ANSWERS)).removesuffix(".jsonl.gz") for path in comparison.ANSWERS.rglob("*.jsonl.gz")}
    assert listed.files() <= known
    assert all(entry["reason"].strip() for entry in [*listed.differences, *listed.missing])
