"""Panics in every kind of handler of the real program: reads and work of the bus, actors, methods and subscriptions
of plugins. A panic returns one error to its caller, is counted in the log and at its module, and all others are
served meanwhile.

Panics of the node itself are triggered through a file (`core/bus/src/injected_panic.rs`), which release builds do not
read; the plugin is `tests/plugins/misbehaving`.
"""

import contextlib
import hashlib
import json
import os
import shutil
import time

import pytest

import unwritable
import watch
import wire
from figures import tell
from tenon_node import BINARY, Node, folder

CRASHED = (-32000, "method handler crashed")
ONE_ERROR = "one error each, and none for other clients"
PLUGIN = "misbehaving/src/lib.rs"
RECIPIENT = "0x" + "11" * 20


class Orders:
    """The file that triggers panics."""

    def __init__(self, path):
        self.path = path
        path.write_text("")

    @contextlib.contextmanager
    def of(self, line):
        self.path.write_text(line + "\n")
        try:
            yield
        finally:
            self.path.write_text("")


@pytest.fixture(scope="module", params=("in-process", "process"))
def node(request):
    with folder() as path:
        plugins = path / "plugins"
        plugins.mkdir()
        for library in BINARY.parent.glob("libtenon_plugin_*.so"):
            shutil.copy(library, plugins / library.name.removeprefix("libtenon_plugin_"))
        shutil.copy(BINARY.parent / "libtenon_test_misbehaving.so", plugins / "bad.so")
        settings = path / "settings.toml"
        # Only a build that the operator vouches for may run in the node's process.
        build = hashlib.sha256((plugins / "bad.so").read_bytes()).hexdigest()
        section = f'[plugins.bad]\nisolation = "{request.param}"\ncapabilities = ["ReadNode"]\n'
        settings.write_text(f'[plugins]\ntrusted = ["{build}"]\n{section}')
        orders = Orders(path / "orders")
        os.environ["TENON_TEST_PANICS"] = str(orders.path)
        try:
            namespaces = "eth,debug,bad"
            arguments = ("--http.api", namespaces, "--ws.api", namespaces, "--plugins", plugins, "--config", settings)
            with Node("dev", *arguments, datadir=path / "data") as running:
                running.orders = orders
                yield running
                assert running.stop() == 0, "the node did not end in order after all that"
        finally:
            del os.environ["TENON_TEST_PANICS"]


def asked(node, transport, method, *params):
    """The code and message of an answer over a fresh connection."""
    with transport(node) as connection:
        return wire.code_of(wire.ask(connection, wire.request(method, *params)))


def wait_for(node, sent):
    """The block of a transaction that was sent."""
    deadline = time.monotonic() + 60
    while (receipt := node.call("eth_getTransactionReceipt", sent)) is None:
        assert time.monotonic() < deadline, "the transaction is not in a block"
        time.sleep(0.05)
    return int(receipt["blockNumber"], 16)


def panics_of(node, module):
    """Number of panics that the node counts at a module."""
    with wire.UnixSocket(node) as connection:
        return wire.ask(connection, wire.request("admin_moduleInfo", module))["result"]["faults"]["panics"]


def panics_in_log(node, what):
    """Number of panics of a handler in the log."""
    lines = node.log_path.read_text(errors="replace").splitlines()
    return sum("panicked" in line and what in line for line in lines)


CALL = {"to": RECIPIENT, "data": "0x"}
# The handler that panics, a request for it, and the module at which the panic is counted.
HANDLERS = {
    "a read": ("read GetAccount", "eth_getBalance", (RECIPIENT, "latest"), "storage"),
    "work on a pool": ("pool Trace", "debug_traceCall", (CALL, "latest", {}), "execution"),
    "a task": ("task SubmitTransaction", "eth_sendRawTransaction", None, "pool"),
}


def parameters(node, method, params):
    """The parameters of a request; for a transaction, one that the node signs."""
    if params is not None:
        return params
    transfer = {"from": node.call("eth_accounts")[0], "to": RECIPIENT, "value": "0x1", "gas": "0x5208"}
    transfer |= {"gasPrice": "0x77359400", "nonce": node.call("eth_getTransactionCount", transfer["from"], "latest")}
    return (node.call("eth_signTransaction", transfer)["raw"],)


@pytest.mark.parametrize("kind", HANDLERS)
def test_a_panic_in_a_handler_of_the_bus_is_one_error_and_counted(node, kind):
    order, method, params, module = HANDLERS[kind]
    params = parameters(node, method, params)
    name = order.split()[1]
    counted, logged = panics_of(node, module), panics_in_log(node, f'handler="{name}"')
    with watch.other_clients(node) as figures:
        with node.orders.of(order):
            found = [asked(node, transport, method, *params) for transport in wire.TRANSPORTS]
        others = figures()
    if (0, "") in found:
        pytest.skip("a release build ignores TENON_TEST_PANICS")
    assert found == [CRASHED] * 3
    assert asked(node, wire.Http, method, *params) == (0, ""), "it does not answer again"
    assert panics_of(node, module) == counted + 3 and panics_in_log(node, f'handler="{name}"') == logged + 3
    assert others["failures"] == 0 and others["answers"] > 0
    tell("panic", f"{kind} ({order})", 3, f"3 errors {found[0]}, counted at {module} and in the log; others: {others['answers']} answers, "
                 f"failures 0, p99 {others['p99']:.1f} ms", ONE_ERROR)


# The actors between a change of the chain and the disk.
WRITE_PATH = {"chain": "the actor that decides about blocks", "storage": "the actor that writes the database"}


@pytest.mark.parametrize("actor", WRITE_PATH)
def test_a_panic_on_the_write_path_is_one_error_and_the_actor_is_rebuilt(node, actor):
    for account in node.call("eth_accounts")[:2]:
        wait_for(node, node.call("eth_sendTransaction", {"from": account, "to": RECIPIENT, "gas": "0x5208"}))
    begun = panics_in_log(node, f'actor="{actor}"')
    with watch.other_clients(node) as figures:
        with node.orders.of(f"actor {actor}"):
            found = asked(node, wire.UnixSocket, "debug_setHead", "0x0")
        if found == (0, ""):
            pytest.skip("a release build ignores TENON_TEST_PANICS")
        deadline = time.monotonic() + 30
        while (again := asked(node, wire.UnixSocket, "debug_setHead", "0x0")) != (0, ""):
            assert time.monotonic() < deadline, again
            time.sleep(0.05)
        others = figures()
    assert found[0] == -32000
    assert panics_in_log(node, f'actor="{actor}"') == begun + 1 and node.call("eth_blockNumber") == "0x0"
    assert others["failures"] == 0
    tell("panic", WRITE_PATH[actor], 1, f"1 error {found}, in the log, restarted; others: {others['answers']} answers, failures 0",
                 ONE_ERROR)


def test_a_panic_in_the_sealer_loses_no_transaction(node):
    transfer = {"from": node.call("eth_accounts")[1], "to": RECIPIENT, "value": "0x1", "gas": "0x5208"}
    begun = panics_in_log(node, 'actor="sealer"')
    with node.orders.of("actor sealer"):
        sent = node.call("eth_sendTransaction", transfer)
        deadline = time.monotonic() + 20
        while panics_in_log(node, 'actor="sealer"') == begun:
            if node.call("eth_getTransactionReceipt", sent):
                pytest.skip("a release build ignores TENON_TEST_PANICS")
            assert time.monotonic() < deadline, "the sealer has not panicked"
            time.sleep(0.05)
    block = wait_for(node, sent)
    panics = panics_in_log(node, 'actor="sealer"') - begun
    tell("panic", "the actor that makes blocks", panics, f"in the log, restarted each time, the transaction is in block {block}", "no transaction lost")


def waiting_in_the_pool(node):
    """Number of pending transactions."""
    with wire.UnixSocket(node) as connection:
        return int(wire.ask(connection, wire.request("txpool_status"))["result"]["pending"], 16)


def test_a_panic_in_the_pools_actor_costs_one_event_and_no_transaction(node):
    transfer = {"from": node.call("eth_accounts")[3], "to": RECIPIENT, "value": "0x1", "gas": "0x5208"}
    begun = panics_in_log(node, 'actor="pool"')
    with node.orders.of("actor pool"):
        wait_for(node, node.call("eth_sendTransaction", transfer))
        deadline = time.monotonic() + 20
        while panics_in_log(node, 'actor="pool"') == begun:
            if waiting_in_the_pool(node) == 0:
                pytest.skip("a release build ignores TENON_TEST_PANICS")
            assert time.monotonic() < deadline, "the pool has not panicked"
            time.sleep(0.05)
    # The event of the block is lost, and the successor reads the head.
    deadline = time.monotonic() + 20
    while waiting_in_the_pool(node) > 0:
        assert time.monotonic() < deadline, "the pool does not follow the chain again"
        time.sleep(0.05)
    block = wait_for(node, node.call("eth_sendTransaction", transfer))
    panics = panics_in_log(node, 'actor="pool"') - begun
    kept = f"in the log, restarted each time, the next transaction is in block {block}"
    tell("panic", "the actor of the pool", panics, kept, "no transaction lost")


def test_a_panic_in_the_actor_of_the_accounts_leaves_them_usable(node):
    begun = panics_in_log(node, 'actor="accounts"')
    with node.orders.of("actor accounts"):
        # The actor checks the folder of key files every half second.
        deadline = time.monotonic() + 5
        while panics_in_log(node, 'actor="accounts"') == begun and time.monotonic() < deadline:
            time.sleep(0.05)
    panics = panics_in_log(node, 'actor="accounts"') - begun
    if panics == 0:
        pytest.skip("a release build ignores TENON_TEST_PANICS")
    with wire.UnixSocket(node) as connection:
        created = wire.ask(connection, wire.request("personal_newAccount", "pass"))["result"]
    assert created in node.call("eth_accounts")
    kept = f"in the log, restarted each time, {created} is created and listed"
    tell("panic", "the actor of the accounts", panics, kept, "accounts stay usable")


def test_a_panic_in_a_method_of_a_plugin_is_one_error_and_counted(node):
    counted, logged = panics_of(node, "bad"), panics_in_log(node, PLUGIN)
    methods = ("bad_panic", "bad_panicLater")
    with watch.other_clients(node) as figures:
        found = [asked(node, transport, method) for method in methods for transport in wire.TRANSPORTS]
        others = figures()
    assert found == [CRASHED] * 6
    assert panics_of(node, "bad") == counted + 6 and panics_in_log(node, PLUGIN) == logged + 6
    assert asked(node, wire.Http, "bad_echo", "still here") == (0, "")
    assert others["failures"] == 0
    tell("panic", "methods of a plugin", 6, f"6 errors {found[0]}, counted at the module and in the log; others: {others['answers']} answers, "
                 "failures 0", ONE_ERROR)


def test_a_panic_in_a_subscription_ends_that_subscription_alone(node):
    counted, logged = panics_of(node, "bad"), panics_in_log(node, PLUGIN)
    with wire.WebSocket(node) as connection, watch.other_clients(node) as figures:
        heads = wire.ask(connection, wire.request("eth_subscribe", "newHeads"))["result"]
        broken = wire.ask(connection, wire.request("bad_subscribe", "panic"))["result"]
        node.call("eth_sendTransaction", {"from": node.call("eth_accounts")[2], "to": RECIPIENT, "gas": "0x5208"})
        told = {}
        while not told.keys() >= {heads, broken}:
            message = json.loads(connection.receive())["params"]
            told.setdefault(message["subscription"], []).append(message)
        # The panicked subscription sends nothing more, and the other one continues.
        node.call("eth_sendTransaction", {"from": node.call("eth_accounts")[2], "to": RECIPIENT, "gas": "0x5208"})
        while len(told[heads]) < 2:
            message = json.loads(connection.receive())["params"]
            told[message["subscription"]].append(message)
        others = figures()
    code, text = CRASHED
    assert told[broken] == [{"subscription": broken, "error": {"code": code, "message": text}}]
    assert panics_of(node, "bad") == counted + 1 and panics_in_log(node, PLUGIN) == logged + 1
    assert others["failures"] == 0
    tell("panic", "a subscription of a plugin", 1, f"told {told[broken][0]['error']}, counted at the module and in the log; newHeads on "
                 "the same connection goes on; others: "
                 f"{others['answers']} answers, failures 0", ONE_ERROR)


@contextlib.contextmanager
def node_with_traces(**options):
    """A node that resolves the names of each panic's backtrace, and reads the file of panics."""
    with folder() as path:
        orders = Orders(path / "orders")
        environment = {**os.environ, "TENON_TEST_PANICS": str(orders.path), "RUST_BACKTRACE": "1"}
        with Node("dev", datadir=path / "data", env=environment, **options) as running:
            running.orders = orders
            yield running
            assert running.stop() == 0


def asked_for_panics(node):
    """The answers of reads that panic: more than there are threads to serve requests."""
    count = 2 * os.cpu_count() + 1
    with node.orders.of("read GetAccount"):
        found = [asked(node, wire.Http, "eth_getBalance", RECIPIENT, "latest") for _ in range(count)]
    if (0, "") in found:
        pytest.skip("a release build ignores TENON_TEST_PANICS")
    return found


@pytest.mark.parametrize("kind", unwritable.KINDS, ids=lambda kind: kind.__name__)
def test_panics_with_an_unwritable_log_are_one_error_each_and_block_no_other_client(kind):
    with kind() as log, node_with_traces(stdout=log, stderr=log) as node:
        found = asked_for_panics(node)
        assert found == [CRASHED] * len(found)
        for transport in wire.TRANSPORTS:
            assert asked(node, transport, "eth_getBalance", RECIPIENT, "latest") == (0, "")
    tell("panic", f"reads, the log on a {kind.__name__.replace('_', ' ')}", len(found), f"{len(found)} errors {found[0]}, all served "
                  "afterwards, ended with 0", ONE_ERROR)


def test_the_position_and_the_backtrace_of_a_panic_are_logged():
    with node_with_traces() as node:
        count = len(asked_for_panics(node))
        # A separate thread writes the backtraces.
        deadline = time.monotonic() + 60
        while "panic_if_injected" not in (log := node.log_path.read_text(errors="replace")):
            assert time.monotonic() < deadline, log[-4000:]
            time.sleep(0.02)
    assert log.count("panicked at core/bus/src/injected_panic.rs:") == count, log[-4000:]
