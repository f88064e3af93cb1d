"""Nodes of a recorded native chain, with networking enabled."""

import contextlib
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "recorded"), str(ROOT / "faults")]

import chains  # noqa: E402
from reference_node import wait_for  # noqa: E402, F401
from tenon_node import Node, run, unpacked  # noqa: E402

NETWORK = ["--p2p", "--p2p.addr", "127.0.0.1", "--port", "0", "--nat", "none"]
NAMESPACES = ["--http.api", "eth,net,web3,admin,debug", "--auth.namespaces", ""]


@pytest.fixture(scope="session")
def chain(tmp_path_factory):
    """A folder with the genesis and the data folder of the recorded chain `local`."""
    with chains.prepared("local") as path:
        yield path


@pytest.fixture
def start(chain, tmp_path):
    """Starts nodes, either with the chain or with its genesis only."""
    with contextlib.ExitStack() as stack:

        def begin(name, *arguments, with_blocks=True):
            datadir = tmp_path / name
            if not datadir.exists() and with_blocks:
                chains.copied(chain / "data", datadir)
            flags = ["--genesis", chain / "genesis.json", *NETWORK, *NAMESPACES, *arguments]
            return stack.enter_context(Node("run", *flags, datadir=datadir))

        yield begin


def enode(node):
    return node.call("admin_nodeInfo")["enode"]


def heads(node):
    """Peers whose Status has arrived."""
    return [peer for peer in node.call("admin_peers") if isinstance(peer["protocols"]["eth"], dict)]


__all__ = ["enode", "heads", "run", "unpacked", "wait_for"]
