"""One client floods the node with slow requests: other clients are served in turn and keep their connections.

The node treats every address of 127.0.0.0/8 as a separate client. The short form counts answers and checks their order;
the long form (`make abuse`) also checks the delay of other clients against a bound in milliseconds.
"""

import contextlib
import json
import multiprocessing
import os
import threading
import time

import pytest

import wire
from figures import LONG, tell
from tenon_node import Node

FLOODER, HONEST, OTHER = "127.0.0.1", "127.0.0.2", "127.0.0.3"
LOOP_ADDRESS = "0x" + "aa" * 20
LOOP = "5b600056"
"""JUMPDEST, PUSH1 0, JUMP: until the gas is used up."""
# A build without optimisation takes ten times as long for the same gas.
GAS = 20_000_000 if LONG else 4_000_000
LIMIT, SERVER = -32005, -32000
SECONDS = float(os.environ.get("TENON_FLOOD_SECONDS", "20" if LONG else "2"))
MORE_MILLISECONDS = {"eth_call": 200, "reads": 5}
"""How much the p99 of others may grow under a flood."""


def loop(gas=GAS, identifier=1, method="eth_estimateGas"):
    """A call that uses up its gas and fails. Its code is in the request, so that nothing must be deployed."""
    call = {"to": LOOP_ADDRESS, "gas": hex(gas)}
    if method == "eth_estimateGas":
        # A creation runs its data as code.
        call = {"data": "0x" + LOOP, "gas": hex(gas)}
        return {"jsonrpc": "2.0", "id": identifier, "method": method, "params": [call, "latest"]}
    return {"jsonrpc": "2.0", "id": identifier, "method": method, "params": [call, "latest", {LOOP_ADDRESS: {"code": "0x" + LOOP}}]}


def batch(count, gas=GAS):
    return json.dumps([loop(gas, number) for number in range(count)]).encode()


def small_call():
    """A call that is one short job of the pool: calls with overrides always run there."""
    return json.dumps(loop(gas=100_000, method="eth_call")).encode()


def entries(connection):
    return json.loads(connection.receive())


@pytest.fixture(scope="module")
def node():
    with Node("dev", "--http.requesttimeout", "5m", "--rpc.computingtime", "0s") as running:
        yield running
        assert running.process.poll() is None, "the node has died"


@pytest.mark.parametrize("flood", (wire.Http, wire.WebSocket, wire.UnixSocket), ids=lambda transport: transport.name)
def test_another_client_is_answered_while_a_batch_runs(node, flood):
    calls, size = 30, 40
    with flood(node, timeout=300, source=FLOODER) as flooder, wire.Http(node, timeout=60, source=HONEST) as honest:
        flooder.send_message(batch(size))
        found = [wire.code_of(wire.ask(honest, small_call())) for _ in range(calls)]
        was_answered = flooder.has_answer()
        answers = entries(flooder)
    assert [code for code, _ in found] == [SERVER] * calls, found
    assert not was_answered, "the others had to wait for the whole batch"
    assert [answer["id"] for answer in answers] == list(range(size))
    assert all(answer["error"]["code"] == SERVER for answer in answers), "the batch loses nothing by it"
    tell("fair", f"calls beside a batch over {flood.name}", calls, f"all before the batch of {size} was done", "in their turn")


def test_a_single_client_gets_every_thread_and_loses_no_answer(node):
    with wire.Http(node, timeout=300, source=FLOODER) as flooder:
        flooder.send_message(batch(8))
        assert [answer["id"] for answer in entries(flooder)] == list(range(8))


def test_a_message_has_a_budget_of_computing_time():
    with Node("dev", "--rpc.computingtime", "200ms") as node:
        for transport in wire.TRANSPORTS:
            with transport(node, timeout=120) as connection:
                connection.send_message(batch(300, gas=2 * GAS))
                answers = entries(connection)
                after = wire.ask(connection, wire.request("eth_blockNumber"))
            codes = [answer["error"]["code"] for answer in answers]
            refused = [answer["error"]["message"] for answer in answers if answer["error"]["code"] == LIMIT]
            assert codes[-1] == LIMIT and len(codes) == 300, f"{transport.name}: {codes}"
            assert all("computing time of this message is used up" in text for text in refused), set(refused)
            assert "result" in after, "another message has its own"
            tell("fair", f"a batch beyond its computing time, {transport.name}", 300, f"{len(refused)} refused by name", "all that exceed it")


def test_a_full_queue_refuses_the_client_with_most_jobs():
    with Node("dev", "--rpc.queue", "4", "--rpc.threads", "1", "--http.requesttimeout", "5m", "--rpc.computingtime", "0s") as node:
        with wire.Http(node, timeout=300, source=FLOODER) as flooder, wire.Http(node, timeout=120, source=HONEST) as honest:
            flooder.send_message(batch(40))
            found = [wire.code_of(wire.ask(honest, small_call())) for _ in range(10)]
            answers = entries(flooder)
    refused = [answer for answer in answers if answer["error"]["code"] == LIMIT]
    assert [code for code, _ in found] == [SERVER] * 10, found
    assert refused and all("of your" in answer["error"]["message"] for answer in refused), answers
    assert len(refused) < len(answers), "what found a place was answered"
    tell("fair", "a full queue", len(answers), f"{len(refused)} of the flood refused, 0 of the others", "0 of the others")


def test_a_plugins_slow_methods_take_no_place_of_another(node):
    # The maximum number of concurrent slow calls of `debug`, and one call of `eth`.
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "debug_traceCall", "params": [{"data": "0x" + LOOP, "gas": hex(GAS)}, "latest", {"tracer": "callTracer"}]}).encode()
    with contextlib.ExitStack() as stack:
        tracers = [stack.enter_context(wire.UnixSocket(node, timeout=300)) for _ in range(80)]
        for tracer in tracers:
            tracer.send_message(text)
        # Sent by the same client, so that the calls differ only in the plugin.
        estimate = json.dumps(loop(gas=100_000)).encode()
        with wire.UnixSocket(node, timeout=120) as other:
            code = wire.code_of(wire.ask(other, estimate))[0]
        waiting = sum(not tracer.has_answer() for tracer in tracers)
        assert code == SERVER
        assert waiting > 0, "the traces were over before"
        for tracer in tracers:
            assert wire.code_of(json.loads(tracer.receive()))[0] in (0, SERVER)


def test_a_full_table_of_connections_closes_the_longest_idle_one_of_the_address_with_most():
    with Node("dev", "--http.connections", "20") as node, contextlib.ExitStack() as stack:
        held = [stack.enter_context(wire.Http(node, source=FLOODER)) for _ in range(20)]
        for connection in held:
            assert "result" in wire.ask(connection, wire.request("eth_chainId")), "one address may have all places"
        newcomers = [stack.enter_context(wire.Http(node, source=HONEST)) for _ in range(5)]
        for newcomer in newcomers:
            assert "result" in wire.ask(newcomer, wire.request("eth_chainId"))

        closed = [connection.is_closed(within=0.2) for connection in held]
        assert sum(closed) == 5, closed
        assert all("result" in wire.ask(newcomer, wire.request("eth_chainId")) for newcomer in newcomers)
        lines = lines_of(node, "closed in favour of new ones")
        assert len(lines) == 1 and "127.0.0.1" in lines[0] and "gave_way=5" in lines[0], lines
        tell("fair", "newcomers at a full table of connections", 5, f"5 served, {sum(closed)} idle ones closed, {len(lines)} line in the log", "all served")


@contextlib.contextmanager
def flooding(node, headers):
    """Keeps the maximum number of a client's jobs queued."""
    stop = threading.Event()

    def flood():
        with wire.Http(node, timeout=300, source=FLOODER) as connection:
            while not stop.is_set():
                connection.send_message(batch(20), headers)
                connection.receive()

    flooder = threading.Thread(target=flood, daemon=True)
    flooder.start()
    try:
        yield
    finally:
        stop.set()
        flooder.join()


def test_a_client_behind_a_trusted_proxy_has_the_address_given_by_the_proxy():
    limits = ["--rpc.queue", "4", "--rpc.threads", "1", "--http.requesttimeout", "5m", "--rpc.computingtime", "0s"]
    named = lambda address: {"X-Forwarded-For": address}
    # The client address given by a trusted or untrusted proxy, for the flood and for another caller, and whether the
    # node then treats them as two clients. A client has two places in this queue, which the flood occupies most of the
    # time.
    for proxies, cases in [
        (
            "127.0.0.0/8",
            [
                (named("192.0.2.1"), named("192.0.2.2"), True),
                (named("192.0.2.1"), named("203.0.113.9, 192.0.2.1"), False),
                ({"Forwarded": "for=192.0.2.1"}, {"Forwarded": "for=192.0.2.2;proto=https"}, True),
            ],
        ),
        ("10.0.0.0/8", [(named("192.0.2.1"), named("192.0.2.2"), False)]),
    ]:
        with Node("dev", "--http.proxies", proxies, *limits) as node:
            for flood, other, are_two in cases:
                with flooding(node, flood), wire.Http(node, timeout=120, source=FLOODER) as caller:
                    deadline, found = time.monotonic() + 60, []
                    while len(found) < 10 or not (are_two or LIMIT in found):
                        assert time.monotonic() < deadline, f"{proxies} {flood} {other}: two clients, not one"
                        caller.send_message(small_call(), other)
                        found.append(wire.code_of(json.loads(caller.receive()))[0])
                assert not are_two or LIMIT not in found, f"{proxies} {flood} {other}: one client, not two"
    tell("fair", "what proxies say of their clients", 4, "believed of those that are trusted, from the end of the list", "no other client's share")


def test_a_wrong_proxy_is_a_settings_error():
    with pytest.raises(AssertionError, match="http.proxies: .*somewhere.* is neither an IP address nor a network"):
        Node("dev", "--http.proxies", "somewhere")


def lines_of(node, text, within=20):
    """The lines of the log with this text, once there are any."""
    deadline = time.monotonic() + within
    while True:
        lines = [line for line in node.log_path.read_text(errors="replace").splitlines() if text in line]
        if lines or time.monotonic() > deadline:
            return lines
        time.sleep(0.1)


class Flood:
    """Slow batches without end over all transports: from one address, and from one process on the socket."""

    CONNECTIONS = {wire.Http: 12, wire.WebSocket: 6, wire.UnixSocket: 6}
    SIZE = 300

    def __init__(self, node):
        import watch

        context = multiprocessing.get_context("fork")
        self.begun, self.stop, self.sent = context.Semaphore(0), context.Event(), context.Value("i", 0)
        self.process = context.Process(target=self.run, args=(watch.Endpoints(node),), daemon=True)

    def run(self, node):
        kinds = [kind for kind, count in self.CONNECTIONS.items() for _ in range(count)]
        threads = [threading.Thread(target=self.one, args=(node, kind), daemon=True) for kind in kinds]
        for thread in threads:
            thread.start()
        self.stop.wait()
        os._exit(0)

    def one(self, node, kind):
        text = batch(self.SIZE)
        is_first = True
        while not self.stop.is_set():
            with contextlib.suppress(wire.Hung, TimeoutError, OSError, ValueError), kind(node, timeout=600, source=FLOODER) as connection:
                while not self.stop.is_set():
                    connection.send_message(text)
                    if is_first:
                        is_first = False
                        self.begun.release()
                    connection.receive()
                    with self.sent.get_lock():
                        self.sent.value += 1

    def __enter__(self):
        self.process.start()
        for _ in range(sum(self.CONNECTIONS.values())):
            assert self.begun.acquire(timeout=120), "the flood does not begin"
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.process.join(10)
        self.process.kill()


def notice(node, seconds):
    """The load of a well-behaved client at another address: milliseconds of each answer, by request."""
    texts = {"eth_call": small_call(), "reads": wire.request("eth_getBalance", "0x" + "11" * 20, "latest")}
    found = {name: [] for name in texts}
    ends = time.monotonic() + seconds
    with wire.Http(node, timeout=60, source=HONEST) as http, wire.WebSocket(node, timeout=60, source=OTHER) as websocket:
        while time.monotonic() < ends or min(map(len, found.values())) < 20:
            for name, text in texts.items():
                for connection in (http, websocket):
                    begun = time.monotonic()
                    code, message = wire.code_of(wire.ask(connection, text))
                    assert code == (SERVER if name == "eth_call" else 0), f"{name}: {code} {message}"
                    found[name].append((time.monotonic() - begun) * 1000)
            time.sleep(0.002)
    return found


def p99(times):
    return sorted(times)[min(len(times) * 99 // 100, len(times) - 1)]


def test_a_flood_of_slow_batches_over_all_transports_blocks_no_other_client(node):
    quiet = notice(node, SECONDS / 4)
    with Flood(node) as flood:
        # Waits until the queue is full.
        time.sleep(1)
        flooded = notice(node, SECONDS)
        batches = flood.sent.value
    kept = True
    for name, more in MORE_MILLISECONDS.items():
        before, after = p99(quiet[name]), p99(flooded[name])
        kept &= tell(
            "fair",
            f"{name} beside a flood over all transports",
            len(flooded[name]),
            f"p99 {after:.1f} ms (quiet {before:.1f}), most {max(flooded[name]):.1f}; {batches} batches of {flood.SIZE} answered meanwhile",
            f"{before + more:.1f} ms",
            in_time=after <= before + more,
        )
    assert kept, "others were held up"
