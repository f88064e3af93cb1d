"""Signing, sending and filling with account 10 in the wallet, compared with the reference: locked and unlocked."""

import hashlib

import pytest

import chains
import comparison
import conftest
from tenon_node import run

RULES = comparison.Rules()
# Account n of the recorded chains: the hash of a name.
KEY = hashlib.sha256(b"tenon-golden-10").hexdigest()


@pytest.fixture(scope="module")
def prepared():
    with chains.prepared("local") as path:
        (path / "key").write_text(KEY)
        (path / "passwords").write_text("password\n")
        with_password = ["--datadir", path / "data", "--password", path / "passwords", "--lightkdf"]
        run("account", "import", path / "key", *with_password)
        yield path


@pytest.mark.parametrize("name", ["locked", "unlocked"])
def test_a_wallet_is_used_as_recorded(prepared, name, pytestconfig):
    tally = comparison.Tally(f"local/wallet-{name}")
    unlocked = ["--unlock", "0", "--password", prepared / "passwords", "--allow-insecure-unlock"] if name == "unlocked" else []
    with chains.node_with(prepared, *unlocked) as node:
        chains.ask_all(node, comparison.recorded(tally.file), RULES, tally)
        assert node.stop() == 0
    conftest.keep(tally, pytestconfig)
