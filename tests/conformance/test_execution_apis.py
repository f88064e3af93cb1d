"""The public execution-apis cases over HTTP, and the same requests over WebSocket and the Unix socket."""

import asyncio
import json
import shutil
import socket

import pytest
import websockets

import execution_apis as suite
from tenon_node import Node, folder, run, unpacked

SCHEMAS = suite.schemas()
CASES = suite.cases()
IN_SCOPE = [case for case in CASES if case[0].split("/")[0] not in suite.OUT_OF_SCOPE]
HEAD = "0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7"


@pytest.fixture(scope="module")
def node():
    with folder() as path:
        genesis = shutil.copy(suite.FOLDER / "genesis.json", path)
        chain = unpacked(suite.FOLDER / "chain.rlp.gz", path / "chain.rlp")
        run("import", "--genesis", genesis, "--datadir", path / "data", chain)
        arguments = ["run", "--genesis", genesis, "--auth.namespaces", ""]
        namespaces = "eth,net,web3,debug,txpool"
        with Node(*arguments, "--http.api", namespaces, "--ws.api", namespaces, datadir=path / "data") as running:
            yield running


def test_the_imported_chain_ends_at_the_recorded_head(node):
    assert node.call("eth_getBlockByNumber", "latest", False)["hash"] == HEAD


@pytest.mark.parametrize(("name", "lines"), IN_SCOPE, ids=[name for name, _ in IN_SCOPE])
def test_case(node, name, lines):
    speconly, exchanges = suite.parse(lines)
    for request, expected in exchanges:
        actual = json.loads(node.raw(request))
        schema = SCHEMAS.get(json.loads(request).get("method"))
        problem = suite.problem(speconly, schema, actual, expected)
        assert problem is None, f"{name}: {request[:300]}\n{problem}"


def read_requests():
    """Every request of the cases that changes nothing."""
    for name, lines in IN_SCOPE:
        if not name.startswith("eth_sendRawTransaction"):
            yield from (request for request, _ in suite.parse(lines)[1])


def test_the_unix_socket_answers_as_http_does(node):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(node.ipc_path)
        answers = connection.makefile("rb")
        for request in read_requests():
            connection.sendall(request.encode())
            assert answers.readline().decode() == node.raw(request), request[:300]


def test_the_websocket_answers_as_http_does(node):
    async def compare():
        async with websockets.connect(node.ws_url, max_size=None) as connection:
            for request in read_requests():
                await connection.send(request)
                assert (await connection.recv()).strip() == node.raw(request).strip(), request[:300]

    asyncio.run(compare())


def test_no_case_is_left_out_silently():
    left_out = {}
    for name, _ in CASES:
        method = name.split("/")[0]
        if method in suite.OUT_OF_SCOPE:
            left_out[method] = left_out.get(method, 0) + 1
    print(f"\nexecution-apis: {len(IN_SCOPE)} cases in scope, {sum(left_out.values())} out of scope:")
    for method, count in sorted(left_out.items()):
        print(f"  {method}: {count} ({suite.OUT_OF_SCOPE[method]})")
    assert len(IN_SCOPE) == 84 and set(left_out) == set(suite.OUT_OF_SCOPE)
