"""The same texts over HTTP, WebSocket and the Unix socket: the answers, their order, and whether the connection
stays open."""

import concurrent.futures
import contextlib
import gzip
import http.client
import json
import socket

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import chains
import comparison
import conftest

RULES = comparison.Rules()
# How long a connection must be silent after the recorded answers to count as open, seconds. A surplus answer that comes
# later is missed; an expected one is not, however slow the machine.
QUIET = 0.4
# Time limit for an expected answer.
TIME_LIMIT = 60
# The recorded headers.
KEPT = (
    "content-type content-length allow vary content-encoding connection x-content-type-options access-control-allow-origin "
    "access-control-allow-methods access-control-allow-headers access-control-max-age www-authenticate location"
).split()


@pytest.fixture(scope="module")
def node():
    with chains.prepared("local") as path:
        open_to_all = ["--http.corsdomain", "*", "--http.vhosts", "*", "--ws.origins", "*"]
        with chains.node_with(path, *open_to_all) as running:
            yield running


def time_limit(expected, answers):
    """How long to wait for the next answer, seconds."""
    is_complete = len(answers) >= len(expected["answers"]) and expected["then"] == "open"
    return QUIET if is_complete else TIME_LIMIT


def over_websocket(node, text, expected):
    answers, then = [], "closed"
    with contextlib.suppress(ConnectionClosed, ValueError), connect(node.ws_url, max_size=None, open_timeout=TIME_LIMIT) as line:
        line.send(text)
        with contextlib.suppress(TimeoutError):
            while True:
                answers.append(json.loads(line.recv(time_limit(expected, answers))))
        then = "open" if not line.protocol.close_expected() else "closed"
    return {"answers": answers, "then": then}


def over_socket(node, text, expected):
    answers, then, rest = [], "closed", ""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(TIME_LIMIT)
        line.connect(node.ipc_path)
        try:
            line.sendall(text.encode() + b"\n")
            line.settimeout(time_limit(expected, answers))
            while data := line.recv(1 << 20):
                rest += data.decode()
                *whole, rest = rest.split("\n")
                answers += [json.loads(answer) for answer in whole if answer.strip()]
                line.settimeout(time_limit(expected, answers))
        except TimeoutError:
            then = "open"
        except OSError:
            pass
    return {"answers": answers, "then": then}


@pytest.mark.parametrize(("file", "converse"), [("protocol-ws", over_websocket), ("protocol-ipc", over_socket)])
def test_a_stream_answers_as_recorded(node, file, converse, pytestconfig):
    tally = comparison.Tally(f"local/{file}")
    cases = comparison.recorded(tally.file)
    # Each waits for silence on a connection of its own.
    with concurrent.futures.ThreadPoolExecutor(16) as workers:
        for case, found in zip(cases, workers.map(lambda case: converse(node, case["raw"], case["response"]), cases)):
            tally.add(case, found, RULES.differences(case, found))
    conftest.keep(tally, pytestconfig)


def exchange(node, call):
    """One HTTP exchange in the recorded form: status, some headers, body."""
    body = call.get("body")
    if isinstance(body, dict):
        body = body["repeat"] * body["times"]
    body = None if body is None else body.encode()
    line = http.client.HTTPConnection(node.http_url.removeprefix("http://").rstrip("/"), timeout=60)
    names = {name.lower() for name in call.get("headers", {})}
    line.putrequest(call["method"], call["path"], skip_accept_encoding=True, skip_host="host" in names)
    for name, value in call.get("headers", {}).items():
        line.putheader(name, value)
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        line.putheader("Content-Length", str(len(body)))
    # An early refusal can still be read.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        line.endheaders(body)
    answer = line.getresponse()
    data = answer.read()
    headers = {name.lower(): value for name, value in answer.getheaders() if name.lower() in KEPT}
    is_packed = headers.get("content-encoding") == "gzip"
    if len(data) > 4096 or is_packed:
        headers.pop("content-length", None)
    line.close()
    return {"status": answer.status, "headers": headers, "body": (gzip.decompress(data) if is_packed else data).decode()}


def test_http_exchanges_are_the_recorded_ones(node, pytestconfig):
    tally = comparison.Tally("local/raw-http")
    for case in comparison.recorded(tally.file):
        found = exchange(node, case["http"])
        # Each server decides itself whether to keep a connection that the reference keeps.
        if "connection" not in case["response"].get("headers", {}):
            found["headers"].pop("connection", None)
        tally.add(case, found, RULES.differences(case, found))
    conftest.keep(tally, pytestconfig)
