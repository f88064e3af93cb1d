"""Every name of the interface document is answered wherever its namespace is exposed."""

import pytest

import wire
from tenon_node import DATA, Node
from test_exposure import names_of, over_socket, unknown

NAMES = (DATA / "interface-methods.txt").read_text().split()
NAMESPACES = "eth,net,web3,txpool,debug,admin,miner,personal,Consensus"
# Methods that would disable the test are called with too many parameters, which are refused before anything is done.
CLOSING = ("admin_startRPC", "admin_stopRPC", "admin_startWS", "admin_stopWS")


@pytest.fixture(scope="module")
def node():
    with Node("dev", "--profile", "native", "--http.api", NAMESPACES, "--ws.api", NAMESPACES, "--auth.namespaces", "") as running:
        yield running


def test_the_document_has_147_names_and_all_are_listed(node):
    methods, _ = names_of(node)

    assert len(NAMES) == len(set(NAMES)) == 147
    assert set(NAMES) <= set(methods)


def test_every_method_has_schemas_of_its_parameters_and_of_its_result(node):
    methods = over_socket(node, "rpc_discover")["methods"]

    without = [(method["name"], param["name"]) for method in methods for param in method["params"] if not param.get("schema")]
    without += [(method["name"], "result") for method in methods if not method["result"].get("schema")]
    assert len(methods) > 190 and without == []


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
def test_every_name_is_answered(node, transport):
    with transport(node) as connection:
        for name in NAMES:
            params = [None] * 9 if name in CLOSING else []
            answer = wire.ask(connection, wire.request(name, *params))
            assert wire.code_of(answer)[0] != -32601 and "no handler" not in str(answer), answer
        assert wire.code_of(wire.ask(connection, wire.request("eth_unheardOf"))) == unknown("eth_unheardOf")


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
def test_events_of_peers_are_subscribed_to_by_name_and_by_the_plain_call(node, transport):
    with transport(node) as connection:
        opened = [
            wire.ask(connection, wire.request("admin_subscribe", "peerEvents")),
            wire.ask(connection, wire.request("admin_peerEvents")),
        ]
        if transport is wire.Http:
            assert [wire.code_of(answer)[0] for answer in opened] == [-32000, -32000]
            assert wire.code_of(opened[1])[1].startswith("notifications not supported: subscribe over WebSocket")
            return
        ids = [answer["result"] for answer in opened]
        assert len(set(ids)) == 2 and all(id.startswith("0x") for id in ids)
        for id in ids:
            assert wire.ask(connection, wire.request("admin_unsubscribe", id))["result"] is True
