"""`tenon import --explain`: a block whose execution differs is compared with another node's results."""

import json

import pytest

from native_chains import Recorded
from tenon_node import Node, folder, run

# The first block that pays rewards, and its reward in the chain and in the wrong genesis file.
REWARDED, REWARD, WRONG = 120, 250, 251


@pytest.fixture(scope="module")
def chain():
    with folder() as path:
        yield Recorded("local", path)


@pytest.fixture(scope="module")
def other(chain):
    """A node that has the chain as the reference made it, up to a little beyond the first reward."""
    with folder() as path:
        blocks = path / "blocks.rlp"
        blocks.write_bytes(b"".join(chain.blocks[:150]))
        run("import", "--genesis", chain.genesis, "--datadir", path / "data", blocks)
        with Node("run", "--http.api", "eth,debug", datadir=path / "data") as node:
            yield node


def explained(chain, reference):
    """Imports with another reward than the chain's: the genesis block is the same, the first rewarded block fails."""
    with folder() as path:
        genesis = json.loads(chain.genesis.read_text())
        assert genesis["config"]["XDPoS"]["reward"] == REWARD
        genesis["config"]["XDPoS"]["reward"] = WRONG
        (path / "genesis.json").write_text(json.dumps(genesis))
        options = ["--genesis", path / "genesis.json", "--datadir", path / "data", f"--explain={reference}"]
        done = run("import", *options, chain.file, check=False)
        assert done.returncode == 1, done.stderr
        return done.stdout


@pytest.mark.parametrize("address", ["http_url", "ipc_path"])
def test_the_accounts_that_differ_from_another_nodes_are_named(chain, other, address):
    found = explained(chain, getattr(other, address))

    assert "not compared" not in found
    differences = found.split("transactions:")[0].splitlines()
    assert differences[0] == "differences, the most important first:"
    accounts = [line.split()[1].rstrip(":") for line in differences if line.startswith("  account ")]
    assert len(accounts) == 2, "the owner of the masternodes and the foundation"
    for account in accounts:
        theirs = int(other.call("eth_getBalance", account, hex(REWARDED)), 16)
        line = next(line for line in differences if account in line)
        own = int(line.split("balance is ")[1].split(",")[0])
        assert line.endswith(f"not {theirs}") and own > theirs
    assert any(line.startswith("  state root is ") for line in differences)


def test_a_node_that_can_not_be_asked_is_named_and_the_rest_is_told(chain):
    found = explained(chain, "http://127.0.0.1:1")

    assert found.startswith("not compared with http://127.0.0.1:1: ")
    assert "  state root is " in found and "accounts after the block:" in found


def test_a_node_of_another_chain_is_found_out(chain):
    with Node("dev") as node:
        found = explained(chain, node.http_url)

    assert "it does not have the block" in found or "it has another block at this number" in found


@pytest.mark.parametrize("reference, words", [("https://127.0.0.1:1", "only http:// addresses"), ("nothing.json", "No such file")])
def test_a_reference_that_can_not_be_used_is_refused_first(chain, reference, words):
    with folder() as path:
        done = run("import", "--datadir", path / "data", f"--explain={reference}", chain.file, check=False)

    assert done.returncode == 2 and words in done.stderr
    assert not (path / "data").exists()
