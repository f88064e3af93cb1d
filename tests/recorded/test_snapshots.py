"""A node that was started from a snapshot, or from the reference's data folder, returns the recorded answers."""

import tarfile

import pytest

import chains
import comparison
import conftest
from tenon_node import DATA, run

RULES = comparison.Rules()
FILES = {"local": ("eth", "XDPoS"), "staged": ("eth",), "v1switch": ("eth",)}


@pytest.mark.parametrize("chain", FILES)
def test_a_restored_node_answers_as_recorded(chain, pytestconfig):
    with chains.prepared(chain) as path:
        run("snapshot", "create", path / "snapshot.tar.gz", "--datadir", path / "data")
        (path / "data").rename(path / "before")
        run("snapshot", "restore", path / "snapshot.tar.gz", "--datadir", path / "data")
        with chains.node_with(path) as node:
            for name in FILES[chain]:
                tally = comparison.Tally(f"{chain}/{name}")
                chains.ask_all(node, comparison.recorded(tally.file), RULES, tally)
                conftest.keep(tally, pytestconfig)


def test_a_node_with_the_references_blocks_answers_as_recorded(pytestconfig):
    with chains.prepared("local", with_blocks=False) as path:
        with tarfile.open(DATA / "native" / "chaindata" / "local.tar.gz") as archive:
            archive.extractall(path / "reference", filter="data")
        run("import", "--genesis", path / "genesis.json", "--datadir", path / "data", "--chaindata", path / "reference")
        with chains.node_with(path) as node:
            tally = comparison.Tally("local/eth")
            chains.ask_all(node, comparison.recorded(tally.file), RULES, tally)
            conftest.keep(tally, pytestconfig)
