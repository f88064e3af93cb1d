"""Endless requests are stopped at their limit with the reference's error, and earlier when their client disconnects.

The tests measure the CPU time of the node's threads. Their bounds are generous; the figures are printed.
"""

import contextlib
import json
import threading
import time

import pytest

import watch
import wire
from figures import tell
from tenon_node import DATA, Node, folder, run, unpacked

LOOP = "5b600056"
"""JUMPDEST, PUSH1 0, JUMP."""
LOGS = "5b5f5fa05a61ffff105f5700"
"""Writes logs without topics until hardly any gas is left."""
ENDLESS = hex(10**15)
LIMIT = ["--rpc.gascap", "0", "--rpc.evmtimeout", "1s", "--rpc.tracetimeout", "1s"]
NO_LIMIT = ["--rpc.gascap", "0", "--rpc.evmtimeout", "10m", "--rpc.tracetimeout", "5m"]
NO_LIMIT += ["--http.requesttimeout", "10m"]
MEMORY = ["--rpc.memory", "8GiB", "--rpc.tracememory", "1GiB"]
"""The recording of the allowed time must fit: this test is about time."""
LIMIT += MEMORY
NO_LIMIT += MEMORY
HUGE_BLOCKS = ["--dev.gaslimit", str(10**14)]
NATIVE = DATA / "native" / "chains" / "local.rlp.gz"


def send(node, **transaction):
    """Sends a transaction and returns its receipt."""
    sent = node.call("eth_sendTransaction", {"from": node.call("eth_accounts")[0], "gas": "0xffffff", **transaction})
    deadline = time.monotonic() + 60
    while (receipt := node.call("eth_getTransactionReceipt", sent)) is None:
        assert time.monotonic() < deadline, "no receipt"
        time.sleep(0.01)
    return receipt


def deploy(node, code):
    """Deploys a contract with this code."""
    size = len(code) // 2
    # PUSH size bytes of code, MSTORE at 0, RETURN the last size bytes of the word.
    text = f"0x{0x5F + size:02x}{code}5f5260{size:02x}60{32 - size:02x}f3"
    receipt = send(node, data=text, gas="0x186a0")
    assert node.call("eth_getCode", receipt["contractAddress"], "latest") == "0x" + code
    return receipt["contractAddress"]


def endless(call):
    """Requests with an endless call, and the errors that stop them."""
    aborted, traced = "execution aborted (timeout = 1s)", "execution timeout"
    return {
        "eth_call": (wire.request("eth_call", call, "latest"), aborted),
        "eth_createAccessList": (wire.request("eth_createAccessList", call, "latest"), aborted),
        "debug_traceCall, callTracer": (wire.request("debug_traceCall", call, "latest", {"tracer": "callTracer"}), traced),
        "debug_traceCall, prestateTracer": (wire.request("debug_traceCall", call, "latest", {"tracer": "prestateTracer"}), traced),
        "debug_traceCall, structured": (wire.request("debug_traceCall", call, "latest", {}), traced),
    }


def endless_on_a_development_network(node):
    """Calls of a contract. Estimates are excluded: they try as much gas as a transaction may have."""
    other = "0x" + "ee" * 20
    override = wire.request("eth_call", {"to": other, "gas": ENDLESS}, "latest", {other: {"code": "0x" + LOOP}})
    return {
        **endless({"to": node.loop, "gas": ENDLESS}),
        "eth_call with overrides": (override, "execution aborted (timeout = 1s)"),
    }


def endless_on_a_native_chain():
    """Calls of code installed by an override, so that nothing must be deployed. Transactions may use a block's gas."""
    call = {"data": "0x" + LOOP, "gas": ENDLESS}
    estimate = wire.request("eth_estimateGas", call, "latest")
    return {**endless(call), "eth_estimateGas": (estimate, "execution aborted (timeout = 1s)")}


@contextlib.contextmanager
def development_network(*arguments):
    with Node("dev", *arguments, *HUGE_BLOCKS) as running:
        running.loop = deploy(running, LOOP)
        running.endless = endless_on_a_development_network(running)
        yield running
        assert running.process.poll() is None, "the node has died"


@contextlib.contextmanager
def native_chain(*arguments):
    with folder() as path:
        genesis = unpacked(DATA / "chain" / "native-genesis-local.json.gz", path / "genesis.json")
        run("import", "--genesis", genesis, "--datadir", path / "data", NATIVE)
        with Node("run", "--http.api", "eth,debug", "--ws.api", "eth,debug", "--auth.namespaces", "", *arguments, datadir=path / "data") as running:
            running.endless = endless_on_a_native_chain()
            yield running
            assert running.process.poll() is None, "the node has died"


KINDS_OF_CHAIN = (development_network, native_chain)


@pytest.fixture(scope="module", params=KINDS_OF_CHAIN, ids=lambda kind: kind.__name__)
def hasty_node(request):
    """A node with a time limit of one second. A trace of every step has a shorter limit, and its client has more memory
    than usual: a release build fills the usual share within 50 ms and would end with that limit's error."""
    with request.param(*LIMIT, "--rpc.memory", "4GiB") as running:
        text, message = running.endless.pop("debug_traceCall, structured")
        asked = json.loads(text)
        asked["params"][2]["timeout"] = "50ms"
        running.endless["debug_traceCall, structured, which asks for 50 ms"] = (json.dumps(asked).encode(), message)
        yield running


@pytest.fixture(scope="module", params=KINDS_OF_CHAIN, ids=lambda kind: kind.__name__)
def patient_node(request):
    """A node without time limits, so that work ends only when its client leaves."""
    with request.param(*NO_LIMIT) as running:
        yield running


@pytest.fixture(scope="module")
def node():
    with Node("dev", "--rpc.gascap", "0", "--rpc.evmtimeout", "1m") as running:
        running.loop = deploy(running, LOOP)
        yield running
        assert running.process.poll() is None, "the node has died"


def test_endless_requests_are_stopped_at_their_limit_on_every_transport(hasty_node):
    print()
    for name, (text, message) in hasty_node.endless.items():
        connections = [transport(hasty_node, timeout=120) for transport in wire.TRANSPORTS]
        begun, found = time.monotonic(), []
        for connection in connections:
            connection.send_message(text)
        for connection in connections:
            found.append(wire.code_of(json.loads(connection.receive())))
            connection.close()
        assert found == [(-32000, message)] * len(connections), name
        tell("endless", f"{name}, limit 1 s", len(found), f"{found[0]}, all after {time.monotonic() - begun:.2f} s", "the reference's words")
    idle = watch.idle_after(hasty_node.process.pid, 10)
    assert idle is not None, "the node still works though every request is answered"


def test_many_endless_calls_release_their_threads(hasty_node):
    # Many more calls than there are threads, while another client sends a small request.
    answers = []
    text, message = hasty_node.endless["eth_call"]

    def one_client():
        with wire.Http(hasty_node, timeout=120) as connection:
            answers.append(wire.code_of(wire.ask(connection, text)))

    clients = [threading.Thread(target=one_client) for _ in range(12)]
    with watch.other_clients(hasty_node) as figures:
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        others = figures()
    assert answers == [(-32000, message)] * 12
    assert others["failures"] == 0
    idle = watch.idle_after(hasty_node.process.pid, 10)
    assert idle is not None, "threads are still taken though every call is answered"
    tell("endless", "calls at once", 12, f"all cut, the node idle after {idle:.2f} s; others: p99 {others['p99']:.1f} ms, {others['answers']} answers",
                 "every thread free again")


def test_a_batch_of_endless_requests_is_stopped_like_its_entries(hasty_node):
    texts = [json.loads(text) for text, _ in hasty_node.endless.values()]
    batch = json.dumps([{**text, "id": number} for number, text in enumerate(texts)]).encode()
    with wire.UnixSocket(hasty_node, timeout=120) as connection:
        begun = time.monotonic()
        answers = wire.ask(connection, batch)
        print(f"\na batch of {len(texts)} kinds: answered after {time.monotonic() - begun:.2f} s")
    found = {answer["id"]: wire.code_of(answer) for answer in answers}
    assert found == {number: (-32000, message) for number, (_, message) in enumerate(hasty_node.endless.values())}


def test_requests_limited_by_gas_return_their_error(node):
    """An estimate tries at most the block's gas, also if its caller allows more; a transaction's trace has its gas."""
    with wire.UnixSocket(node) as connection:
        estimate = wire.code_of(wire.ask(connection, wire.request("eth_estimateGas", {"to": node.loop, "gas": ENDLESS})))
        receipt = send(node, to=node.loop)
        assert receipt["status"] == "0x0"
        config = {"tracer": "callTracer", "timeout": "1ms"}
        trace = wire.code_of(wire.ask(connection, wire.request("debug_traceTransaction", receipt["transactionHash"], config)))
        whole = wire.ask(connection, wire.request("debug_traceTransaction", receipt["transactionHash"], {"tracer": "callTracer", "timeout": "60s"}))
    print(f"\nestimate: {estimate}, trace with a millisecond: {trace}")
    assert estimate[0] == -32000 and estimate[1].startswith("gas required exceeds allowance")
    assert trace == (-32000, "execution timeout")
    assert whole["result"]["error"] == "out of gas"


def test_a_search_over_everything_stops_at_its_limit(node):
    noisy = deploy(node, LOGS)
    logs = len(send(node, to=noisy)["logs"])
    assert logs > 20_000
    with wire.UnixSocket(node) as connection:
        begun = time.monotonic()
        found = wire.code_of(wire.ask(connection, wire.request("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest"})))
        assert found[0] == -32005 and "20000" in found[1]
        tell("endless", f"eth_getLogs over {logs} logs", 1, f"{found} after {time.monotonic() - begun:.2f} s", "20,000 results")
        assert wire.ask(connection, wire.request("eth_getLogs", {"fromBlock": "0x0", "toBlock": "0x0"}))["result"] == []


MAX_REST = 100
"""Milliseconds after which no work is done for a client that has gone, on an idle machine (the long form)."""
MAX_AFTERWARDS = 400
"""Milliseconds of processor time that the node may use for a client that has gone. A release build used 50 at most;
the request itself would use at least seconds."""


def left_alone(node, requests, transport):
    """Sends each request, disconnects while the node works on it, and returns how long the work continues and the
    processor time that it uses, in ms."""
    pid, rests = node.process.pid, {}
    for name, text in requests.items():
        connection = transport(node)
        connection.send_message(text)
        assert watch.busy_within(pid, 20), f"{name} does not run"
        connection.close()
        # Work before the client disconnects does not count, however long the test itself is delayed.
        used = watch.processor_milliseconds(pid)
        idle = watch.idle_after(pid, 10)
        used = watch.processor_milliseconds(pid) - used
        assert idle is not None, f"{name} over {transport.name} still runs 10 s after its client has gone"
        assert used < MAX_AFTERWARDS, f"{name} over {transport.name} cost {used:.0f} ms of processor time after its client had gone"
        rests[name] = idle * 1000, used
    assert node.call("eth_chainId")
    return rests


def told(transport, rests):
    most = [max(column) for column in zip(*rests.values())]
    print(f"\n{transport.name}: at rest so long after the client has gone (processor time), ms: " +
          ", ".join(f"{name} {rest:.0f} ({used:.0f})" for name, (rest, used) in rests.items()))
    what = f"clients that go, {transport.name}: {', '.join(name.partition(',')[0] for name in rests)}"
    assert tell("endless", what[:70], len(rests), f"at rest after {most[0]:.0f} ms at most, {most[1]:.0f} ms of processor time",
                        f"{MAX_REST} ms", in_time=most[0] <= MAX_REST)


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
def test_work_stops_when_its_client_has_gone(patient_node, transport):
    requests = {name: text for name, (text, _) in patient_node.endless.items()}
    batch = [{**json.loads(text), "id": name} for name, text in requests.items()]
    requests["a batch of all"] = json.dumps(batch).encode()
    told(transport, left_alone(patient_node, requests, transport))


@pytest.fixture(scope="module")
def heavy_node():
    """A node whose last block is full of long transactions, and another one full of logs."""
    with development_network(*NO_LIMIT) as running:
        sender, noisy = running.call("eth_accounts")[0], deploy(running, LOGS)
        for address in (noisy, running.loop):
            sending = {"from": sender, "to": address, "gas": "0xffffff"}
            # With the sealer running, each transaction would get a block of its own.
            with wire.UnixSocket(running, timeout=60) as administration:
                assert "result" in wire.ask(administration, wire.request("admin_disableModule", "sealing"))
                hashes = [running.call("eth_sendTransaction", sending) for _ in range(6)]
                assert "result" in wire.ask(administration, wire.request("admin_enableModule", "sealing"))
            deadline = time.monotonic() + 120
            while not all(running.call("eth_getTransactionReceipt", sent) for sent in hashes):
                assert time.monotonic() < deadline, "no receipts"
                time.sleep(0.05)
            running.noisy, running.heavy = (hashes[0], hashes[-1]) if address == noisy else (running.noisy, hashes[-1])
        # The transactions traced below follow others in their block.
        assert int(running.call("eth_getTransactionReceipt", running.heavy)["transactionIndex"], 16) > 0
        running.noisy_block = running.call("eth_getTransactionReceipt", running.noisy)["blockHash"]
        running.silent = "0x" + "5e" * 20
        yield running
        assert running.process.poll() is None, "the node has died"


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
def test_traces_and_estimates_stop_when_their_client_has_gone(heavy_node, transport):
    block = heavy_node.call("debug_getRawBlock", "latest")
    estimate = json.loads(wire.request("eth_estimateGas", {"to": heavy_node.loop}))
    requests = {
        "debug_traceTransaction, structured": wire.request("debug_traceTransaction", heavy_node.heavy, {"timeout": "5m"}),
        "debug_traceTransaction, callTracer": wire.request(
            "debug_traceTransaction", heavy_node.heavy, {"tracer": "callTracer", "timeout": "5m"}
        ),
        "debug_traceBlockByNumber, structured": wire.request("debug_traceBlockByNumber", "latest", {"timeout": "5m"}),
        "debug_traceBlockByNumber, callTracer": wire.request("debug_traceBlockByNumber", "latest", {"tracer": "callTracer"}),
        "eth_estimateGas, 20 in a batch": json.dumps([{**estimate, "id": number} for number in range(20)]).encode(),
        "debug_traceBlock, callTracer": wire.request("debug_traceBlock", block, {"tracer": "callTracer"}),
    }
    told(transport, left_alone(heavy_node, requests, transport))


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
def test_a_search_stops_when_its_client_has_gone(heavy_node, transport):
    """Everything matches, up to the maximum number of results. Many searches run at once, so that they take long."""
    everything = json.loads(wire.request("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest"}))
    batch = json.dumps([{**everything, "id": number} for number in range(400)]).encode()
    told(transport, left_alone(heavy_node, {"eth_getLogs over everything, 400 in a batch": batch}, transport))


SHARES = (0.2, 0.4, 0.6, 0.8)
"""Parts of the processor time of a whole request at which its client leaves. Searching or executing comes first,
writing the answer last."""
MAX_SHARE = 0.5
"""Part of it that may be used after the client has gone: without checks it would be all the rest, 0.8 of it at first.
A result crosses to the plugin in one message: encoding and decoding it, a third of the work, do not stop."""


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
def test_work_stops_at_any_point_when_its_client_has_gone(heavy_node, transport):
    """Requests that end by themselves are abandoned at times spread over their duration, so that every part of the
    work is tested. Times are measured in processor time, which the machine's load does not change."""
    pid = heavy_node.process.pid
    search = json.loads(wire.request("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest", "address": heavy_node.silent, "topics": []}))
    requests = {
        "debug_traceTransaction, structured": wire.request("debug_traceTransaction", heavy_node.noisy, {"timeout": "5m"}),
        "debug_traceBlockByHash, with logs": wire.request(
            "debug_traceBlockByHash", heavy_node.noisy_block, {"tracer": "callTracer", "tracerConfig": {"withLog": True}, "timeout": "5m"}
        ),
        "eth_getLogs of an address without logs, 1000 in a batch": json.dumps([{**search, "id": number} for number in range(1000)]).encode(),
    }
    print(f"\n{transport.name}: processor time of whole requests, then after the client has gone at {SHARES} of it (at rest after), ms")
    for name, text in requests.items():
        whole = cost(heavy_node, text, transport)
        found = [left_at(heavy_node, text, transport, share * whole) for share in SHARES]
        print(f"  {name}: {whole:.0f}; " + ", ".join(f"{used:.0f} ({rest:.0f})" for used, rest in found))
        assert max(used for used, _ in found) < max(MAX_SHARE * whole, 100), name
    assert heavy_node.call("eth_chainId")


def cost(node, text, transport):
    """Processor time of a request, ms: the lower of two measurements, because caches are full in the second."""
    found = []
    for _ in range(2):
        with transport(node, timeout=120) as connection:
            begun = watch.processor_milliseconds(node.process.pid)
            answer = wire.ask(connection, text)
            found.append(watch.processor_milliseconds(node.process.pid) - begun)
        assert all("result" in one for one in (answer if isinstance(answer, list) else [answer])), str(answer)[:300]
    return min(found)


def left_at(node, text, transport, when):
    """Disconnects when the node has used this much processor time for the request. Returns the processor time that it
    uses afterwards, and the time until it is idle, ms."""
    pid = node.process.pid
    connection = transport(node)
    begun = watch.processor_milliseconds(pid)
    connection.send_message(text)
    # A run that needs less than the measured time answers earlier.
    while watch.processor_milliseconds(pid) - begun < when and not connection.has_answer():
        time.sleep(0.0005)
    connection.close()
    used = watch.processor_milliseconds(pid)
    idle = watch.idle_after(pid, 10)
    assert idle is not None, "the node still runs 10 s after its client has gone"
    return watch.processor_milliseconds(pid) - used, idle * 1000


def test_calls_that_outlive_a_stop_get_an_error_and_do_not_delay_it():
    with Node("dev", *NO_LIMIT, "--grace", "300ms") as node, contextlib.ExitStack() as open_connections:
        text = wire.request("eth_call", {"to": deploy(node, LOOP), "gas": ENDLESS}, "latest")
        connections = [open_connections.enter_context(transport(node)) for transport in wire.TRANSPORTS]
        for connection in connections:
            connection.send_message(text)
        time.sleep(0.5)
        assert not any(connection.has_answer() for connection in connections)
        begun = time.monotonic()
        code = node.stop()
        took = time.monotonic() - begun
        for connection in connections:
            answer = wire.code_of(json.loads(connection.receive()))
            assert answer == (-32000, "the server is stopping"), (connection.name, answer)
        with pytest.raises(wire.Hung):
            connections[1].receive()
    assert (code, connections[1].close_code) == (0, 1001) and took < 5, (code, took)
    tell("endless", "calls at the end of the grace period of a stop", len(connections), f"-32000 on each, the node ended after {took:.1f} s", "5 s")
