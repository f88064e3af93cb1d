"""The consensus namespace under both of its names: over every transport, in a process of its own, and where it is
not served."""

import contextlib
import json
import socket

import pytest
from websockets.sync.client import connect

import chains
import comparison
from tenon_node import DATA, Node, RpcError, folder, run, unpacked

RULES = comparison.Rules()




@pytest.fixture(scope="module")
def imported():
    # Engine v1, the switch, and v2.
    with chains.prepared("staged") as path:
        yield path


@pytest.fixture(scope="module", params=["in-process", "process"])
def node(request, imported):
    settings = imported / "tenon.toml"
    settings.write_text(f'[plugins.consensus]\nisolation = "{request.param}"\n')
    with chains.node_with(imported, "--config", settings) as running:
        running.isolation = request.param
        yield running
        assert running.stop() == 0


@contextlib.contextmanager
def over_http(node):
    yield lambda text: node.raw(text)


@contextlib.contextmanager
def over_websocket(node):
    with connect(node.ws_url, max_size=None) as line:

        def ask(text):
            line.send(text)
            return line.recv(60)

        yield ask


@contextlib.contextmanager
def over_socket(node):
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(60)
        line.connect(node.ipc_path)
        with line.makefile("rw", encoding="utf-8", newline="\n") as stream:

            def ask(text):
                stream.write(text + "\n")
                stream.flush()
                return stream.readline()

            yield ask


@pytest.mark.parametrize("connected", [over_http, over_websocket, over_socket])
def test_every_transport_gives_the_recorded_bytes_by_the_references_name(node, connected):
    listed, compared = comparison.Listed(), 0
    with connected(node) as ask:
        for case in comparison.recorded("staged/XDPoS"):
            request = {"jsonrpc": "2.0", "id": case["id"], "method": case["method"]}
            if "params" in case:
                request["params"] = case["params"]
            found = json.loads(ask(json.dumps(request)))
            assert found.pop("id") == case["id"]
            if any(listed.entry_for("staged/XDPoS", case, one) is not None for one in RULES.differences(case, found)):
                continue
            expected = json.dumps(case["response"])
            # Members of objects must be in the recorded order too.
            assert json.dumps(found) == expected, case
            compared += 1
    assert compared == 201


def test_the_plugin_runs_in_the_configured_process(node):
    info = json.loads(run("module", "info", "consensus", "--json", "--datadir", node.datadir).stdout)
    assert info["isolation"] == node.isolation


def is_served(node, method):
    try:
        return bool(node.call(method, "latest"))
    except RpcError as error:
        assert error.error == {"code": -32601, "message": f"the method {method} does not exist/is not available"}
        return False


@pytest.mark.parametrize(
    ("arguments", "by_alias", "by_own", "modules"),
    [
        (("--http.api", "eth,XDPoS"), True, True, {"Consensus", "XDPoS", "eth", "rpc"}),
        # Without aliases, a list with the reference's name exposes nothing.
        (("--http.api", "eth,XDPoS", "--rpc.aliases=false"), False, False, {"eth", "rpc"}),
        (("--http.api", "Consensus", "--rpc.aliases=false"), False, True, {"Consensus", "rpc"}),
    ],
)
def test_the_references_name_is_served_and_exposes_only_where_aliases_are_on(arguments, by_alias, by_own, modules):
    with folder() as path:
        genesis = unpacked(chains.genesis_file("local"), path / "genesis.json")
        with Node("run", "--genesis", genesis, *arguments, datadir=path / "data") as node:
            assert is_served(node, "XDPoS_getSigners") == by_alias
            assert is_served(node, "Consensus_getSigners") == by_own
            assert set(node.call("rpc_modules")) == modules


def test_a_chain_without_this_consensus_does_not_serve_it():
    with folder() as path:
        genesis = DATA / "execution-apis" / "genesis.json"
        with Node("run", "--genesis", genesis, "--http.api", "Consensus,XDPoS", datadir=path / "data") as node:
            assert not is_served(node, "Consensus_getSigners")
            assert not is_served(node, "XDPoS_getSigners")
