"""HTTP and WebSocket, closed and opened while the node runs: by `tenon module`, `admin_*Module` and the seed's methods."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest
import websockets
from web3 import Web3

from tenon_node import BINARY, Node, folder, run


@pytest.fixture
def node():
    with Node("dev") as node:
        yield node


@pytest.fixture
def admin(node):
    """Calls over the Unix socket, one after another; every answer is one line."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(60)
        line.connect(str(node.ipc_path))
        answers = line.makefile("rb")

        def call(method, *params):
            line.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}).encode())
            answer = json.loads(answers.readline())
            if "error" in answer:
                raise Refused(answer["error"])
            return answer["result"]

        yield call
        answers.close()


class Refused(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]


def endpoints(node):
    return json.loads((node.datadir / "endpoints.json").read_text())


def is_open(url):
    host, port = re.match(r"\w+://([^:/]+):(\d+)", url).groups()
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def ask(url, method, *params, headers=None):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **(headers or {})})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def port_of(url):
    return int(url.rsplit(":", 1)[1])


def test_http_is_stopped_and_started_by_name_and_clients_notice(node, admin):
    url = node.http_url
    assert ask(url, "eth_chainId")["result"] == "0x7a69"

    report = admin("admin_disableModule", "http")
    assert report["state"] == "disabled" and not is_open(url)
    assert "http" not in endpoints(node) and is_open(endpoints(node)["ws"])
    listed = json.loads(run("module", "info", "http", "--json", "--datadir", node.datadir).stdout)
    assert (listed["kind"], listed["state"]) == ("actor", "disabled")

    run("module", "enable", "http", "--datadir", node.datadir)
    assert ask(endpoints(node)["http"], "eth_chainId")["result"] == "0x7a69"


def test_the_socket_cannot_be_stopped_and_gives_the_reason(node):
    refused = run("module", "disable", "socket", "--datadir", node.datadir, check=False)

    assert refused.returncode == 1
    assert "without it nothing could enable it again" in refused.stderr


def test_the_seeds_methods_close_and_open_http(node, admin):
    url = node.http_url
    assert admin("admin_stopRPC") is True and not is_open(url)
    assert admin("admin_stopRPC") is False, "nothing was closed"

    assert admin("admin_startRPC", "127.0.0.1", port_of(url), "https://a.example", "eth,web3", "localhost") is True
    assert endpoints(node)["http"] == url
    assert ask(url, "eth_chainId")["result"] == "0x7a69"
    assert ask(url, "txpool_status")["error"]["code"] == -32601, "it was not asked for"
    request = urllib.request.Request(url, b"{}", {"Content-Type": "application/json", "Origin": "https://a.example"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.headers["Access-Control-Allow-Origin"] == "https://a.example"

    with pytest.raises(Refused, match="JSON-RPC over HTTP is already enabled"):
        admin("admin_startRPC", "127.0.0.1", port_of(url))
    with pytest.raises(Refused, match="HTTP server already running on 127.0.0.1:"):
        admin("admin_startRPC", "127.0.0.1", 1)
    assert admin("admin_stopRPC") is True and admin("admin_startRPC", "localhost", 0) is True


def test_requested_addresses_are_checked_like_settings(node, admin):
    admin("admin_stopRPC")
    with pytest.raises(Refused, match="neither an IP address nor localhost"):
        admin("admin_startRPC", "example.org")
    with pytest.raises(Refused, match="70000 is not a port"):
        admin("admin_startRPC", "127.0.0.1", 70000)

    assert admin("admin_startRPC", "127.0.0.1", 0, "", "eth,admin") is True
    url = endpoints(node)["http"]
    assert ask(url, "admin_datadir")["error"]["code"] == -32601, "admin needs a token"
    assert (node.datadir / "jwt.hex").stat().st_mode & 0o777 == 0o600
    with pytest.raises(urllib.error.HTTPError) as foreign:
        ask(url, "eth_chainId", headers={"Host": "evil.example"})
    assert foreign.value.code == 403
    admin("admin_stopRPC")

    with pytest.raises(Refused, match="--dev.expose"):
        admin("admin_startRPC", "0.0.0.0", 0, "*")
    assert admin("admin_startRPC", "127.0.0.1", 0, "*") is True
    log = node.log_path.read_text()
    assert "web pages of every origin" in log
    assert "front-end start requested" in log


def test_a_used_port_is_an_error_and_the_front_end_can_be_started_on_another(node, admin):
    admin("admin_stopWS")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(Refused, match="cannot listen on"):
            admin("admin_startWS", "127.0.0.1", taken.getsockname()[1])
    assert admin("admin_startWS", "127.0.0.1", 0) is True
    assert is_open(endpoints(node)["ws"])


def test_websockets_end_with_1001_after_the_answer_to_the_call_that_closes_them(node):
    async def close_its_own():
        everything = ["--ws.api", "eth,admin", "--auth.namespaces", ""]
        with Node("dev", *everything) as open_node:
            async with websockets.connect(open_node.ws_url) as first, websockets.connect(open_node.ws_url) as second:
                await second.send('{"id":1,"method":"eth_subscribe","params":["newHeads"]}')
                await second.recv()
                await first.send('{"id":7,"method":"admin_stopWS","params":[]}')
                answer = json.loads(await first.recv())
                for client in (first, second):
                    with pytest.raises(websockets.ConnectionClosed) as closed:
                        await client.recv()
                    assert closed.value.rcvd.code == 1001
            assert not is_open(open_node.ws_url)
            return answer

    assert asyncio.run(close_its_own()) == {"jsonrpc": "2.0", "id": 7, "result": True}


def test_http_answers_the_call_that_closes_it():
    with Node("dev", "--http.api", "eth,admin", "--auth.namespaces", "") as node:
        assert node.call("admin_disableModule", "http")["state"] == "disabled"
        assert not is_open(node.http_url)


def test_one_front_end_leaves_a_shared_port_and_the_other_keeps_it():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with folder() as path:
        log = open(path / "log", "wb")
        process = subprocess.Popen(
            [str(BINARY), "dev", "--port", str(port), "--datadir", str(path / "data")], stdout=log, stderr=log
        )
        try:
            wait_for(path / "data" / "endpoints.json")
            url = f"http://127.0.0.1:{port}"
            run("module", "disable", "http", "--datadir", path / "data")
            with pytest.raises(urllib.error.HTTPError) as gone:
                ask(url, "eth_chainId")
            assert gone.value.code == 404
            run("module", "disable", "websocket", "--datadir", path / "data")
            assert not is_open(url)
            run("module", "enable", "http", "--datadir", path / "data")
            assert ask(url, "eth_chainId")["result"] == "0x7a69"
        finally:
            process.kill()
            process.wait()
            log.close()


def test_states_survive_a_restart_and_requested_addresses_do_not():
    with folder() as path:
        with Node("dev", datadir=path / "data") as node:
            run("module", "disable", "websocket", "--datadir", node.datadir)
            url = endpoints(node)["http"]
            node.stop()
        data = path / "data"
        with open(path / "log", "wb") as log:
            process = subprocess.Popen(
                [str(BINARY), "dev", "--http.port", "0", "--ws.port", "0", "--datadir", str(data)], stdout=log, stderr=log
            )
            try:
                wait_for(data / "endpoints.json")
                found = json.loads((data / "endpoints.json").read_text())
                assert "ws" not in found and "http" in found and url
            finally:
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0


def test_without_the_socket_http_cannot_be_stopped():
    with folder() as path:
        with open(path / "log", "wb") as log:
            process = subprocess.Popen(
                [str(BINARY), "dev", "--ipcdisable", "--http.port", "0", "--ws.port", "0", "--datadir", str(path / "data"),
                 "--http.api", "eth,admin", "--auth.namespaces", ""],
                stdout=log, stderr=log,
            )
            try:
                wait_for(path / "data" / "endpoints.json")
                url = json.loads((path / "data" / "endpoints.json").read_text())["http"]
                refused = ask(url, "admin_disableModule", "http")
                assert "there is no Unix socket, so nothing could enable it again" in refused["error"]["message"]
                assert ask(url, "admin_disableModule", "websocket")["result"]["state"] == "disabled"
            finally:
                process.kill()
                process.wait()


def wait_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.01)


def test_the_chain_is_exported_and_imported_in_the_folders_for_it(node, admin):
    web3 = Web3(Web3.HTTPProvider(node.http_url))
    sender, receiver = web3.eth.accounts[:2]
    for _ in range(3):
        web3.eth.wait_for_transaction_receipt(web3.eth.send_transaction({"from": sender, "to": receiver, "value": 1}))
    head = admin("eth_getBlockByNumber", "latest", False)

    assert admin("admin_exportChain", "chain.rlp.gz") is True
    assert admin("admin_exportChain", "part.rlp", 1, 2) is True
    files = node.datadir / "files"
    assert {file.name for file in files.iterdir()} == {"chain.rlp.gz", "part.rlp"}
    with pytest.raises(Refused, match="the chain has 0 to 3"):
        admin("admin_exportChain", "none.rlp", 2, 9)
    for outside in ("../chain.rlp", "/tmp/chain.rlp", str(node.datadir / "chain.rlp")):
        with pytest.raises(Refused, match="requests can use files in these folders only"):
            admin("admin_exportChain", outside)
        with pytest.raises(Refused, match="requests can use files in these folders only"):
            admin("admin_importChain", outside)

    assert admin("debug_setHead", "0x0") is None
    assert admin("admin_importChain", "part.rlp") is True
    assert int(admin("eth_blockNumber"), 16) == 2
    assert admin("admin_importChain", str(files / "chain.rlp.gz")) is True
    assert admin("eth_getBlockByNumber", "latest", False) == head


def test_the_node_reports_its_status_without_a_network(node, admin):
    info = admin("admin_nodeInfo")

    assert info["name"] == admin("web3_clientVersion")
    assert info["ports"] == {"discovery": 0, "listener": 0} and info["listenAddr"] == ""
    eth = info["protocols"]["eth"]
    assert (eth["network"], eth["config"]["chainId"]) == (31337, 31337)
    assert eth["head"] == admin("eth_getBlockByNumber", "latest", False)["hash"]
    assert eth["genesis"] == admin("eth_getBlockByNumber", "0x0", False)["hash"]
    assert {"id", "enode", "ip"}.isdisjoint(info), "there is no key of a node without a network"
    assert admin("admin_peers") == []
    assert admin("admin_datadir") == str(node.datadir)
