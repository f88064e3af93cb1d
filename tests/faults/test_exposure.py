"""The exposure of a port: nothing is served without its token, by any kind of request; changes by operators apply at
once, and end on time.
"""

import base64
import hashlib
import hmac
import json
import os
import shutil
import time

import pytest

import wire
from tenon_node import BINARY, Node, RpcError, folder, run

UNKNOWN = -32601
TCP = (wire.Http, wire.WebSocket)
HARMLESS = {
    "eth": "eth_chainId",
    "net": "net_version",
    "web3": "web3_clientVersion",
    "txpool": "txpool_status",
    "debug": "debug_memStats",
    "admin": "admin_datadir",
    "rpc": "rpc_modules",
    "Consensus": "Consensus_networkInformation",
    "XDPoS": "XDPoS_networkInformation",
    "personal": "personal_listWallets",
    "miner": "miner_getHashrate",
    "hello": "hello_greet",
}
"""A method of each namespace that changes nothing."""


def libraries(path):
    """A folder with all plugins, and one that is not in the node's own lists."""
    plugins = path / "plugins"
    plugins.mkdir()
    for library in BINARY.parent.glob("libtenon_plugin_*.so"):
        shutil.copy(library, plugins)
    shutil.copy(BINARY.parent / "libtenon_example_hello.so", plugins / "libhello.so")
    return plugins


def encoded(value):
    return base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).rstrip(b"=").decode()


def token(node, header=None, **claims):
    """A bearer token of the node's secret."""
    secret = bytes.fromhex((node.datadir / "jwt.hex").read_text().strip().removeprefix("0x"))
    header = {"alg": "HS256", "typ": "JWT"} | (header or {})
    signed = f"{encoded(header)}.{encoded({'iat': int(time.time())} | claims)}"
    return f"{signed}.{encoded(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


def over_socket(node, method, *params):
    """The result of a call over the Unix socket, which serves everything."""
    with wire.UnixSocket(node) as connection:
        answer = wire.ask(connection, wire.request(method, *params))
    if "error" in answer:
        raise RpcError(answer["error"])
    return answer["result"]


def names_of(node):
    """Every method that the node serves, under all its names, and every subscription."""
    document = over_socket(node, "rpc_discover")
    methods = [method["name"] for method in document["methods"] if not method["name"].endswith("subscribe")]
    kinds = {
        method["name"].removesuffix("_subscribe"): method["params"][0]["schema"]["enum"]
        for method in document["methods"]
        if method["name"].endswith("_subscribe")
    }
    methods += [name.replace("Consensus_", "XDPoS_", 1) for name in methods if name.startswith("Consensus_")]
    return methods, kinds


def unknown(method):
    return UNKNOWN, f"the method {method} does not exist/is not available"


def refused_in_every_way(connection, methods, kinds):
    """Requests everything in more than five ways, and checks that the answers say that nothing of it exists."""
    for name in methods:
        assert wire.code_of(wire.ask(connection, wire.request(name))) == unknown(name), name
        # The envelope decodes names before they are checked.
        escaped = wire.request(name).replace(name.encode(), b"\\u%04x" % ord(name[0]) + name[1:].encode())
        assert wire.code_of(wire.ask(connection, escaped)) == unknown(name), name
    for part in (methods[start : start + 100] for start in range(0, len(methods), 100)):
        # Each also as a notification, which is never answered.
        calls = [{"id": number, "method": name} for number, name in enumerate(part)]
        silent = [{"method": name} for name in part]
        answers = wire.ask(connection, json.dumps([*silent, *calls]).encode())
        assert [wire.code_of(answer) for answer in answers] == [unknown(name) for name in part]
    for namespace, names in kinds.items():
        for kind in names:
            for ask in (wire.request, lambda *call: b"[" + wire.request(*call) + b"]"):
                refusal = UNKNOWN, f'no "{kind}" subscription in {namespace} namespace'
                if connection.name == "http":
                    refusal = -32000, "notifications not supported"
                assert wire.code_of(wire.ask(connection, ask(f"{namespace}_subscribe", kind))) == refusal


@pytest.fixture(scope="module", params=("each by name", "all"))
def closed(request):
    """A native chain with every namespace on TCP, and one that is loaded later, all requiring a token."""
    with folder() as path:
        plugins = libraries(path)
        served = "eth,net,web3,txpool,debug,admin,Consensus,personal,miner,hello"
        # By the reference's name if ours is served, and vice versa.
        bound = "eth,net,web3,txpool,debug,admin,XDPoS,personal,miner,hello,rpc" if request.param == "each by name" else "*"
        arguments = ("--profile", "native", "--http.api", served, "--ws.api", served.replace("Consensus", "XDPoS"))
        with Node("dev", *arguments, "--auth.namespaces", bound, "--plugins", plugins, datadir=path / "data") as node:
            over_socket(node, "admin_unloadModule", "hello")
            over_socket(node, "admin_loadModule", str(plugins / "libhello.so"))
            yield node


@pytest.mark.parametrize("transport", TCP, ids=lambda transport: transport.name)
def test_nothing_is_served_without_a_token_under_any_name_or_request(closed, transport):
    methods, kinds = names_of(closed)
    assert {name.split("_")[0] for name in methods} == set(HARMLESS) and "eth" in kinds and "admin" in kinds

    with transport(closed) as connection:
        refused_in_every_way(connection, methods, {**kinds, "XDPoS": ["anything"]})


@pytest.mark.parametrize("transport", TCP, ids=lambda transport: transport.name)
def test_everything_answers_with_a_token(closed, transport):
    with transport(closed, token=token(closed)) as connection:
        for name in HARMLESS.values():
            assert wire.code_of(wire.ask(connection, wire.request(name))) == (0, ""), name
        listed = wire.ask(connection, wire.request("rpc_modules"))["result"]
        assert set(listed) == set(HARMLESS)


def test_a_token_for_one_namespace_leaves_the_others_open_and_is_not_revealed():
    with Node("dev", "--http.api", "eth,txpool,net", "--ws.api", "eth,txpool,net", "--auth.namespaces", "eth,txpool") as node:
        for transport in TCP:
            with transport(node) as connection:
                for name, is_open in (("eth_chainId", False), ("txpool_status", False), ("net_version", True)):
                    assert (wire.code_of(wire.ask(connection, wire.request(name)))[0] == 0) == is_open, name
                assert set(wire.ask(connection, wire.request("rpc_modules"))["result"]) == {"net", "rpc"}
                document = wire.ask(connection, wire.request("rpc_discover"))["result"]
                assert {method["name"].split("_")[0] for method in document["methods"]} == {"net", "rpc"}


def test_a_chain_shows_only_its_own_namespaces():
    with Node("dev") as node:
        assert "Consensus" not in over_socket(node, "rpc_modules")
        methods, _ = names_of(node)
        assert not any("Consensus" in name or "XDPoS" in name for name in methods)
    with Node("dev", "--profile", "native") as node:
        modules = over_socket(node, "rpc_modules")
        assert {"Consensus", "XDPoS"} <= set(modules)
        methods, _ = names_of(node)
        assert "Consensus_networkInformation" in methods
        assert not any(name.startswith("Consensus_XDPoS") for name in methods), "an internal name"
        with pytest.raises(RpcError, match="does not exist"):
            over_socket(node, "Consensus_XDPoS_networkInformation")
        assert "NativeValidatorAddress" in over_socket(node, "Consensus_networkInformation")
        assert "XDCValidatorAddress" in over_socket(node, "XDPoS_networkInformation")


def test_denied_methods_are_refused_by_every_name_and_never_listed():
    served = "eth,debug,Consensus"
    denied = ("--http.methods.deny", "eth_sign*,XDPoS_getSigners,debug_subscribe", "--ws.methods.deny", "eth_subscribe")
    with Node("dev", "--profile", "native", "--http.api", served, "--ws.api", served, *denied) as node:
        with wire.Http(node) as http:
            for name in ("eth_sign", "eth_signTransaction", "Consensus_getSigners", "XDPoS_getSigners"):
                assert wire.code_of(wire.ask(http, wire.request(name))) == unknown(name)
            assert wire.code_of(wire.ask(http, wire.request("eth_chainId")))[0] == 0
            document = wire.ask(http, wire.request("rpc_discover"))["result"]
            names = {method["name"] for method in document["methods"]}
            assert "eth_chainId" in names
            assert names.isdisjoint({"eth_sign", "eth_signTransaction", "Consensus_getSigners", "debug_subscribe"})
        with wire.WebSocket(node) as websocket:
            code, message = wire.code_of(wire.ask(websocket, wire.request("eth_subscribe", "newHeads")))
            assert (code, message) == (UNKNOWN, 'no "newHeads" subscription in eth namespace')
            assert wire.code_of(wire.ask(websocket, wire.request("eth_sign")))[0] != UNKNOWN


def test_reloaded_settings_apply_to_open_connections():
    with folder() as path:
        settings = path / "settings.toml"

        def write(namespaces, deny="[]", bound="[]"):
            lists = f"api = {json.dumps(namespaces)}\nmethods.deny = {deny}\n"
            settings.write_text(f"[http]\n{lists}[ws]\n{lists}[auth]\nnamespaces = {bound}\n")

        write(["eth", "debug"])
        with Node("dev", "--config", settings, datadir=path / "data") as node:
            with wire.Http(node) as http, wire.WebSocket(node) as websocket:
                both = (http, websocket)
                answers = lambda name: [wire.code_of(wire.ask(each, wire.request(name)))[0] == 0 for each in both]
                assert answers("debug_memStats") == [True, True]

                write(["eth"], '["eth_gas*"]')
                report = json.loads(run("module", "reload", "--json", "--datadir", node.datadir).stdout)
                assert [change["key"] for change in report["changed"]] == [
                    "http.api", "http.methods.deny", "ws.api", "ws.methods.deny",
                ]
                assert report["needsRestart"] == []
                assert answers("debug_memStats") == [False, False] and answers("eth_gasPrice") == [False, False]

                write(["eth", "debug"], bound='["debug"]')
                run("module", "reload", "--datadir", node.datadir)
                assert answers("debug_memStats") == [False, False] and answers("eth_gasPrice") == [True, True]
                with wire.WebSocket(node, token=token(node)) as known:
                    assert wire.code_of(wire.ask(known, wire.request("debug_memStats")))[0] == 0


def test_an_admin_method_changes_the_exposure_for_a_time_and_ends_subscriptions():
    with Node("dev") as node, wire.WebSocket(node) as websocket:
        wire.ask(websocket, wire.request("eth_subscribe", "newHeads"))
        report = over_socket(node, "admin_setExposure", "ws", {"namespaces": ["net"], "seconds": 3600})
        assert (report["isOpen"], report["open"]) == (True, ["net", "rpc"]) and report["until"] > time.time()
        assert wire.code_of(wire.ask(websocket, wire.request("eth_chainId"))) == unknown("eth_chainId")
        sender, receiver = node.call("eth_accounts")[:2]
        node.call("eth_sendTransaction", {"from": sender, "to": receiver, "value": "0x1"})
        notice = json.loads(websocket.receive())
        assert "not available any more" in json.dumps(notice["params"]) and "result" not in notice["params"]

        report = over_socket(node, "admin_setExposure", "ws", {"namespaces": ["eth"], "seconds": 1})
        assert report["open"] == ["eth", "rpc"]
        wait_until(lambda: wire.code_of(wire.ask(websocket, wire.request("net_version")))[0] == 0)

        over_socket(node, "admin_setExposure", "http", {"deniedMethods": ["eth_call"]})
        with pytest.raises(RpcError, match="eth_call does not exist"):
            node.call("eth_call", {})
        assert over_socket(node, "admin_setExposure", "http")["deniedMethods"] == []
        with pytest.raises(RpcError, match="expected a method or a pattern"):
            over_socket(node, "admin_setExposure", "http", {"deniedMethods": ["eth call"]})


def wait_until(condition):
    """Repeats until the condition holds; only the test's own time-out ends the wait."""
    while not condition():
        time.sleep(0.02)


def test_a_module_is_enabled_for_a_time_that_outlasts_the_node():
    with folder() as path:
        data = path / "data"
        with Node("dev", datadir=data) as node:
            run("module", "disable", "txpool", "--datadir", data)
            shown = run("module", "enable", "txpool", "--for", "1h", "--datadir", data).stdout
            assert "disabled in    1h" in shown
            until = json.loads(run("module", "info", "txpool", "--json", "--datadir", data).stdout)["until"]
            node.kill()
        with Node("dev", datadir=data) as node:
            info = json.loads(run("module", "info", "txpool", "--json", "--datadir", data).stdout)
            assert (info["state"], info["until"]) == ("enabled", until)
            node.call("txpool_status")
            run("module", "enable", "txpool", "--for", "1s", "--datadir", data)
            wait_until(lambda: over_socket(node, "admin_moduleInfo", "txpool")["state"] == "disabled")
            with pytest.raises(RpcError, match="does not exist"):
                node.call("txpool_status")
            node.stop()
        with Node("dev", datadir=data) as node:
            assert over_socket(node, "admin_moduleInfo", "txpool")["state"] == "disabled"
            refused = run("module", "enable", "net", "--for", "1h", "--datadir", data, check=False)
            assert refused.returncode == 1 and "enabled without a time limit" in refused.stderr


def test_a_websocket_ends_exactly_when_its_token_expires(closed):
    with wire.WebSocket(closed, token=token(closed, exp=int(time.time()) + 2)) as ends, wire.WebSocket(
        closed, token=token(closed, iat=int(time.time()) - 59)
    ) as stays:
        assert wire.code_of(wire.ask(ends, wire.request("eth_chainId")))[0] == 0
        with pytest.raises(wire.Hung):
            ends.receive()
        assert ends.close_code == 1008
        # By now the token's `iat` is more than a minute old.
        assert wire.code_of(wire.ask(stays, wire.request("eth_chainId")))[0] == 0


@pytest.mark.parametrize(
    ("header", "claims"),
    [
        ({}, {"nbf": 3600}),
        ({}, {"exp": -1}),
        ({}, {"iat": -3600}),
        ({"crit": ["exp"]}, {}),
        ({"crit": []}, {}),
        ({"alg": "none"}, {}),
    ],
)
def test_an_invalid_token_is_refused(closed, header, claims):
    now = int(time.time())
    bad = token(closed, header, **{name: now + value for name, value in claims.items()})
    with wire.Http(closed, token=bad) as http:
        http.send_message(wire.request("eth_chainId"))
        http.receive()
        assert http.status == 401
    with pytest.raises(AssertionError, match="401"):
        wire.WebSocket(closed, token=bad)


def status(node, target, headers):
    """The status of a request with these header lines."""
    with wire.Http(node) as http:
        http.send(f"GET {target} HTTP/1.1\r\n".encode() + headers + b"\r\n")
        http.receive()
        return http.status


def test_a_request_has_exactly_one_valid_host():
    with Node("dev") as node:
        for headers, wanted in (
            (b"Host: localhost\r\n", 200),
            (b"Host: LocalHost:8545\r\n", 200),
            (b"Host: 127.0.0.1\r\n", 200),
            (b"", 400),
            (b"Host:\r\n", 400),
            (b"Host: localhost\r\nHost: localhost\r\n", 400),
            (b"Host: localhost\r\nHost: evil.example\r\n", 400),
            (b"Host: evil.example\r\n", 403),
        ):
            for target in ("/", "/health"):
                assert status(node, target, headers) == wanted, (target, headers)
        assert status(node, "http://evil.example/health", b"Host: localhost\r\n") == 403


def test_an_origin_without_a_host_is_an_error_of_the_settings():
    for key in ("corsdomain", "origins"):
        section = "http" if key == "corsdomain" else "ws"
        with folder() as path:
            (path / "bad.toml").write_text(f'[{section}]\n{key} = ["https://a.example", ""]\n')
            refused = run("config", "--config", path / "bad.toml", check=False)
            assert refused.returncode == 2
            assert f"`{section}.{key}`: expected an origin" in refused.stderr


def test_a_development_network_stays_on_this_machine():
    for key in ("--http.addr", "--ws.addr"):
        refused = run("dev", key, "0.0.0.0", "--http.port", "0", "--ws.port", "0", check=False)
        assert refused.returncode == 2 and "--dev.expose" in refused.stderr
    with Node("dev") as node:
        over_socket(node, "admin_stopRPC")
        with pytest.raises(RpcError, match="--dev.expose"):
            over_socket(node, "admin_startRPC", "0.0.0.0", 0)
    with Node("dev", "--http.addr", "0.0.0.0", "--dev.expose") as node:
        assert node.http_url.startswith("http://0.0.0.0:")


def all_printed_by(node):
    """What a development node has printed, with its accounts: the endpoints are written before these are printed."""
    deadline = time.monotonic() + 30
    while "Unix socket" not in (shown := node.log_path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return shown


def test_a_custom_mnemonic_comes_from_a_file_and_is_never_shown():
    words = "legal winner thank year wave sausage worth useful legal winner thank yellow"
    with folder() as path:
        (path / "words").write_text(words + "\n")
        for arguments, environment in (
            (["--mnemonic-file", path / "words"], {}),
            ([], {"TENON_DEV_MNEMONIC": words}),
        ):
            with Node("dev", "--profile", "native", *arguments, env=os.environ | environment) as node:
                accounts = node.call("eth_accounts")
                shown = all_printed_by(node)
                settings = json.dumps(over_socket(node, "admin_reloadSettings"))
            assert accounts[0] == "0x58a57ed9d8d624cbd12e2c467d34787555bb1b25"
            assert accounts[0] in shown.lower() and "Private keys" not in shown
            for secret in ("sausage", "0x33fa40f84e854b941c2b0436dd4a256e1df1cb41b9c1c0ccc8446408c19b8bf9"):
                assert secret not in shown and secret not in settings
        both = run("dev", "--mnemonic-file", path / "words", "--mnemonic", words, check=False)
        assert both.returncode == 2 and "exclude each other" in both.stderr and "sausage" not in both.stderr
    with Node("dev") as node:
        shown = all_printed_by(node)
        assert "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80" in shown and "junk" in shown


def test_a_start_without_arguments_exposes_little_whatever_the_settings():
    wide = ("--http.api", "eth,txpool,debug", "--http.corsdomain", "*", "--http.vhosts", "*", "--auth.namespaces", "net")
    with Node("dev", *wide) as node:
        over_socket(node, "admin_stopRPC")
        assert over_socket(node, "admin_startRPC", None, 0) is True
        node.http_url = json.loads((node.datadir / "endpoints.json").read_text())["http"]
        assert node.http_url.startswith("http://127.0.0.1:")
        with wire.Http(node) as http:
            # `net` is one of the three, and requires the token configured in the settings.
            assert set(wire.ask(http, wire.request("rpc_modules"))["result"]) == {"eth", "web3", "rpc"}
            http.send(b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://a.example\r\nContent-Length: 0\r\n\r\n")
            assert b"access-control" not in http.take_until(b"\r\n\r\n").lower()
        assert status(node, "/", b"Host: evil.example\r\n") == 403


def test_files_that_others_can_change_do_not_decide_what_a_node_serves(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    secret, settings = data / "jwt.hex", data / "tenon.toml"
    secret.write_text("ab" * 32)
    settings.write_text('[http]\napi = ["eth", "debug"]\n')

    def allow(mode, owner=None):
        for path in (secret, settings):
            path.chmod(mode)
            os.chown(path, os.geteuid() if owner is None else owner, -1)

    allow(0o600)
    with Node("dev", datadir=data) as node:
        assert "WARN" not in node.log_path.read_text()
    data.chmod(0o777)
    allow(0o664)
    with Node("dev", datadir=data) as node:
        log = node.log_path.read_text()
        assert "other users can replace files of the data folder" in log and "other users can make bearer tokens" in log, log
        assert "tenon.toml: others can change it: run chmod go-w on it" in log, log
    if os.geteuid() == 0:
        # As a host's files that are mounted into a container, where the node runs as root.
        allow(0o600, 65534)
        with Node("dev", datadir=data) as node:
            assert node.log_path.read_text().count("belongs to another user (id 65534)") == 2, node.log_path.read_text()
    allow(0o666)
    words = "others can change it"
    for command in ("dev", "config"):
        ended = run(command, "--port", "0", "--datadir", data, check=False, timeout=60)
        assert ended.returncode == 2 and "tenon.toml" in ended.stderr and words in ended.stderr, ended.stderr
    settings.unlink()
    ended = run("dev", "--port", "0", "--http.api", "debug", "--datadir", data, check=False, timeout=60)
    assert ended.returncode != 0 and "jwt.hex" in ended.stderr and words in ended.stderr, ended.stderr
