"""Clients that make the node hold memory: messages, calls, unread answers, filters, subscriptions and traces.

All of these share one budget (`rpc.memory`). In every test the process stays below the sum of its settings plus 256 MiB,
and other clients are served. 15 s after the clients have gone, it holds at most its caches plus 64 MB.

TENON_ABUSE=long: the counts and sizes of an attack and the default budget. Otherwise both are a tenth of that.
"""

import concurrent.futures
import contextlib
import json
import socket
import threading
import time
import urllib.request

import pytest

import watch
import wire
from figures import LONG, tell
from tenon_node import Node

MB = 1 << 20
CACHE = 64
BUDGET = 512 if LONG else 96
"""MiB of `rpc.memory`."""
SHARE = BUDGET // 4
"""MiB of one client."""
MAX_PROCESS_MEMORY = CACHE + BUDGET + 256
"""MB that the process may take."""
SOCKETS, READERS, FILTERS, SUBSCRIPTIONS, TRACES, VALUES = (500, 1_000, 2_000, 10_000, 16, 100) if LONG else (60, 24, 400, 1_000, 6, 30)
PADDING = 4 * MB if LONG else MB
ANSWER = 8 * MB
"""More than the system buffers for a connection."""
LIMIT = -32005
LOOP, OTHER = "0x" + "aa" * 20, "0x" + "bb" * 20
ENDLESS = {LOOP: {"code": "0x5b600056"}}
"""JUMPDEST, PUSH1 0, JUMP."""


@pytest.fixture(scope="module")
def node():
    arguments = ["--cache", str(CACHE), "--rpc.memory", f"{BUDGET}MiB", "--rpc.gascap", "0", "--rpc.evmtimeout", "2s"]
    arguments += ["--http.writetimeout", "600s", "--metrics", "--metrics.port", "0"]
    wire.open_files_allowed()
    with Node("dev", *arguments) as running:
        for _ in range(50):
            running.call("eth_getBlockByNumber", "latest", True)
        running.unloaded = watch.memory(running.process.pid) - cached(running)
        watch.forget_peak(running.process.pid)
        yield running
        assert running.process.poll() is None, "the node has died"


def metrics(node):
    """Values by name and labels."""
    url = json.loads((node.datadir / "endpoints.json").read_text())["metrics"]
    with urllib.request.urlopen(url, timeout=30) as answer:
        lines = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def cached(node):
    """MB of caches according to the metrics."""
    found = metrics(node)
    names = ("tenon_database_cache_bytes", "tenon_database_table_reader_bytes", "tenon_database_memory_bytes")
    return sum(value for name, value in found.items() if name.split("{")[0] in names) / MB


def held(node, use=None):
    """MB of the budget in use."""
    found = metrics(node)
    names = [name for name in found if name.startswith("tenon_rpc_memory_bytes{") and (use is None or f'"{use}"' in name)]
    assert names, "no metrics of memory"
    return sum(found[name] for name in names) / MB


def refused(node, use):
    return metrics(node)[f'tenon_rpc_memory_refused_total{{use="{use}"}}']


@contextlib.contextmanager
def watched(node, what, count):
    """Checks that the process stays within its limit, that another client is served meanwhile, and that all memory
    is released."""
    watch.forget_peak(node.process.pid)
    stopped, failures, seen = threading.Event(), [], {"slowest": 0.0}

    def honest():
        try:
            while not stopped.is_set():
                with wire.UnixSocket(node, timeout=60) as connection:
                    begun = time.monotonic()
                    answer = wire.ask(connection, wire.request("eth_getBalance", OTHER, "latest"))
                    seen["slowest"] = max(seen["slowest"], time.monotonic() - begun)
                    assert answer["result"] == "0x0", answer
                time.sleep(0.05)
        except Exception as failure:  # noqa: BLE001, reported below
            failures.append(failure)

    other = threading.Thread(target=honest)
    other.start()
    try:
        yield seen
    finally:
        stopped.set()
        other.join()
    peak = watch.peak_memory(node.process.pid)
    assert not failures, f"another client was not served: {failures}"
    assert peak < MAX_PROCESS_MEMORY, f"{what}: {peak:.0f} MB"
    tell("memory", what, count, f"{peak:.0f} MB at most, others served", f"{MAX_PROCESS_MEMORY} MB")


def settle(node):
    """Checks that clients' memory is released soon after they have gone."""
    deadline = time.monotonic() + 15
    while (left := held(node)) > 1 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left <= 1, f"{left:.1f} MB are held without a client: {metrics(node)}"


def send_some(connection, data):
    """Sends what the node accepts within a second."""
    connection.socket.settimeout(1)
    with contextlib.suppress(TimeoutError, OSError):
        connection.socket.sendall(data)


def codes(answers):
    return {answer.get("error", {}).get("code", 0) for answer in answers}


def test_padded_slow_calls_on_many_websockets(node):
    slow = wire.request("eth_call", {"to": LOOP, "gas": hex(10**15)}, "latest", ENDLESS)
    padded = slow[:-1] + b" " * PADDING + b"}"
    frames = wire.frame(0x81, padded) * 3
    with watched(node, "WebSockets with padded slow calls", SOCKETS), contextlib.ExitStack() as stack:
        connections = [stack.enter_context(wire.WebSocket(node, timeout=60)) for _ in range(SOCKETS)]
        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda connection: send_some(connection, frames), connections))
    settle(node)


def test_large_waiting_parameters_are_refused_beyond_the_share_and_running_calls_continue(node):
    # The parameters themselves are large: they are kept while their calls wait.
    data = "0x" + "00" * (PADDING // 2)
    call = wire.request("eth_call", {"to": LOOP, "gas": hex(10**15), "data": data}, "latest", ENDLESS)
    count = 2 * SHARE * MB // PADDING
    with watched(node, "calls with large parameters", count), contextlib.ExitStack() as stack:
        connections = [stack.enter_context(wire.WebSocket(node, timeout=120)) for _ in range(count)]
        for connection in connections:
            send_some(connection, wire.frame(0x81, call))
        answers = []
        for connection in connections:
            connection.socket.settimeout(120)
            with contextlib.suppress(wire.Hung):
                answers.append(json.loads(connection.receive()))
        found = codes(answers)
    assert LIMIT in found and -32000 in found, f"some are refused, and some run: {found}"
    assert refused(node, "messages") + refused(node, "calls") > 0
    settle(node)


def test_clients_that_stop_reading(node):
    # RETURN of this many bytes of memory; the answer is twice as long.
    code = "0x62" + f"{ANSWER // 2:06x}" + "5ff3"
    ask = wire.request("eth_call", {"to": OTHER, "gas": hex(10**9)}, "latest", {OTHER: {"code": code}})
    with watched(node, "clients that do not read their answers", READERS), contextlib.ExitStack() as stack:
        connections = []
        for number in range(READERS):
            kind = wire.Http if number % 2 else wire.WebSocket
            try:
                connection = stack.enter_context(kind(node, timeout=60))
            except (wire.Hung, OSError):
                # The maximum number of connections is open.
                continue
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connections.append(connection)
            with contextlib.suppress(wire.Hung):
                connection.send_message(ask)
        deadline = time.monotonic() + 120
        while refused(node, "answers") == 0 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert refused(node, "answers") > 0, "not all answers fit"
        # Most of the share is in use, so a body must wait until some of it is read.
        large = wire.request("eth_chainId")[:-1] + b" " * (4 * MB) + b"}"
        statuses = []
        for _ in range(40):
            with wire.Http(node, timeout=60) as last:
                last.send_message(large)
                head = last.take_until(b"\r\n\r\n").decode()
                statuses.append(int(head.split(" ", 2)[1]))
                if statuses[-1] == 503:
                    assert "retry-after: 1" in head.lower(), head
                    break
        # Connections are limited by their number, and are not refused when the share is already used up.
        assert held(node) <= SHARE + held(node, "connections") + 1, "one client holds more than its share"
        tell("memory", "bodies while answers wait", len(statuses), f"status {statuses[-1]}", "200, or 503 with Retry-After")
    settle(node)


def largest_criteria():
    topic = lambda number: f"0x{number:064x}"  # noqa: E731
    return {
        "address": [f"0x{number:040x}" for number in range(1_000)],
        "topics": [[topic(position * 250 + number) for number in range(250)] for position in range(4)],
    }


def test_filters_and_subscriptions_of_the_largest_kind(node):
    criteria = largest_criteria()
    too_many = {**criteria, "topics": [*criteria["topics"][:3], criteria["topics"][3] + ["0x" + "ff" * 32]]}
    too_wide = {"topics": [[], [], [], [], []]}
    with wire.UnixSocket(node) as connection:
        for wrong in (too_many, too_wide):
            for text in (wire.request("eth_newFilter", wrong), wire.request("eth_subscribe", "logs", wrong)):
                assert wire.code_of(wire.ask(connection, text))[0] == -32602
    install = wire.request("eth_newFilter", criteria)
    with watched(node, "filters of the largest kind", FILTERS):
        with wire.Http(node, timeout=60) as connection:
            answers = [wire.ask(connection, install) for _ in range(FILTERS)]
        assert codes(answers) <= {0, LIMIT}
        installed = [answer["result"] for answer in answers if "result" in answer]
        assert held(node, "plugin_state") > len(installed) * 50_000 / MB, "each filter is counted"
        assert len(installed) == FILTERS or LIMIT in codes(answers)
        with wire.UnixSocket(node, timeout=60) as other:
            assert wire.code_of(wire.ask(other, install)) == (0, ""), "another client has a share of its own"
        for id in installed:
            assert node.call("eth_uninstallFilter", id) is True
    subscribe = wire.request("eth_subscribe", "logs", criteria)
    with watched(node, "subscriptions of the largest kind", SUBSCRIPTIONS), contextlib.ExitStack() as stack:
        answers = []
        while len(answers) < SUBSCRIPTIONS:
            connection = stack.enter_context(wire.WebSocket(node, timeout=60))
            answers += [wire.ask(connection, subscribe) for _ in range(min(250, SUBSCRIPTIONS - len(answers)))]
        assert codes(answers) == {0, LIMIT}, "more than a client's share"
        assert held(node, "subscriptions") > 1
    # Only the other client's subscription remains.
    assert held(node, "subscriptions") < 1


def test_traces_that_record_more_than_a_share(node):
    options = {"enableMemory": True, "enableReturnData": True, "timeout": "20s"}
    # PUSH0, JUMPDEST, MSTORE8(i, 1), i += 1024, JUMP: memory grows, so that each step records more.
    grow = {LOOP: {"code": "0x5f5b6001815361040001600156"}}
    call = {"to": LOOP, "gas": hex(10**12)}
    shapes = [
        ("structured, with memory", {**options, "stateOverrides": grow}),
        ("structured", {"timeout": "20s", "stateOverrides": ENDLESS}),
        ("prestateTracer", {"timeout": "5s", "tracer": "prestateTracer", "stateOverrides": ENDLESS}),
    ]
    with watched(node, "traces that record without end", TRACES):
        def trace(number):
            _, asked = shapes[number % len(shapes)]
            with wire.UnixSocket(node, timeout=300) as connection:
                return wire.ask(connection, wire.request("debug_traceCall", call, "latest", asked))

        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(trace, range(TRACES)))
    found = codes(answers)
    assert LIMIT in found and found <= {0, LIMIT, -32000, -32003}, found
    messages = {answer["error"]["message"] for answer in answers if answer.get("error", {}).get("code") == LIMIT}
    assert any("memory" in message for message in messages), messages
    assert node.call("eth_chainId"), "what runs goes on"
    assert held(node, "traces") == 0


def test_values_that_take_more_memory_than_their_text(node):
    """A JSON tree takes a hundred times the memory of its text."""
    values = json.dumps([{"": 1}] * (PADDING // 9), separators=(",", ":"))
    call = '{"to":"%s","gas":"0x5208"}' % OTHER
    typed = f'"{OTHER}",{{"types":{{}},"primaryType":"A","domain":{{}},"message":{values}}}'
    requests = [
        ("eth_signTypedData_v4", typed),
        ("eth_signTypedData_v4", f'"{OTHER}",' + json.dumps(values)),
        ("debug_traceCall", f'{call},"latest",{{"tracer":"callTracer","tracerConfig":{values}}}'),
        ("debug_traceCall", f'{call},"latest",{{"tracer":"callTracer","unknown":{values}}}'),
        ("eth_getProof", f'"{OTHER}",{json.dumps([""] * (PADDING // 3), separators=(",", ":"))},"latest"'),
    ]

    def ask(number):
        method, params = requests[number % len(requests)]
        request = f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":[{params}]}}'
        with wire.UnixSocket(node, timeout=300) as connection:
            return method, wire.ask(connection, request.encode())

    with watched(node, "values that take more memory than their text", VALUES):
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(ask, range(VALUES)))
    texts = {(method, answer.get("error", {}).get("message", "")) for method, answer in answers}
    for method, text in [
        ("eth_signTypedData_v4", "typed data of more than 20000 values"),
        ("debug_traceCall", "tracerConfig has more than 10000 values"),
        ("eth_getProof", "too many storage keys requested"),
    ]:
        assert any(name == method and text in message for name, message in texts), (method, texts)
    settle(node)


def test_traces_of_validation_that_record_every_step(node):
    """Their answers are short, but the tracer keeps every step with stack and memory until the end."""
    # JUMPDEST, JUMPDEST, GAS, SLOAD(0), KECCAK256(0, 32 KiB), JUMP: without end, until the gas is used up.
    code = {LOOP: {"code": "0x5b5b5a505f5450618000" + "5f2050" + "5f56"}}
    options = {"tracer": "erc7562Tracer", "timeout": "20s", "stateOverrides": code}
    with watched(node, "traces that keep every step for a short answer", TRACES):
        def trace(_):
            with wire.UnixSocket(node, timeout=300) as connection:
                return wire.ask(connection, wire.request("debug_traceCall", {"to": LOOP, "gas": hex(10**9)}, "latest", options))

        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(trace, range(TRACES)))
    assert LIMIT in codes(answers), answers[0]
    assert held(node, "traces") == 0


LOGS, LISTENERS = (20_000, 2_000) if LONG else (6_000, 500)
"""Logs of a full block, and the subscriptions of one client, each of which wants a 32nd of them."""


def read_on(connection):
    """Reads until the other side or the test closes the connection; returns the number of bytes."""
    count = 0
    with contextlib.suppress(OSError):
        while data := connection.socket.recv(1 << 16):
            count += len(data)
    return count


def test_subscriptions_to_a_block_that_is_full_of_logs():
    arguments = ["--cache", str(CACHE), "--rpc.memory", f"{BUDGET}MiB", "--metrics", "--metrics.port", "0"]
    topics = [f"0x{number:064x}" for number in range(32)]
    with Node("dev", *arguments, "--gas-limit", "50000000") as node, contextlib.ExitStack() as stack:
        sender = node.call("eth_accounts")[0]
        node.call("eth_getBlockByNumber", "latest", True)
        honest = stack.enter_context(wire.UnixSocket(node, timeout=300))
        wire.ask(honest, wire.request("eth_subscribe", "logs", {}))
        greedy = []
        for number in range(LISTENERS):
            if number % 250 == 0:
                greedy.append(stack.enter_context(wire.WebSocket(node, timeout=300)))
            subscribe = wire.request("eth_subscribe", "logs", {"topics": [topics[number % 32]]})
            assert "result" in wire.ask(greedy[-1], subscribe)
        before = watch.memory(node.process.pid)
        threads = stack.enter_context(concurrent.futures.ThreadPoolExecutor(len(greedy)))
        reading = [threads.submit(read_on, connection) for connection in greedy]
        with watched(node, "subscriptions to a block that is full of logs", LISTENERS * LOGS // 32) as seen:
            # JUMPDEST, LOG1(0, 0, GAS & 31), repeated while 20,000 gas is left: 783 gas per log.
            code = "0x5b601f5a165f5fa162004e205a115f5700"
            gas = hex(75_000 + 783 * LOGS)
            hash = node.call("eth_sendTransaction", {"from": sender, "data": code, "gas": gas})
            logs = node.call("eth_getTransactionReceipt", hash)["logs"]
            assert len(logs) >= LOGS * 0.9, len(logs)
            told = [json.loads(honest.receive())["params"]["result"] for _ in logs]
            # Reads by other clients continue while the rest is sent.
            time.sleep(5)
        for connection in greedy:
            connection.socket.shutdown(socket.SHUT_RDWR)
        came = sum(thread.result() for thread in reading)
        more = watch.peak_memory(node.process.pid) - before
    assert told == logs, "an honest subscription is told of all, in order"
    assert came > len(logs) * 100, "the greedy client was told of something"
    assert more < SHARE + 64, f"{more:.0f} MB more"
    slowest = seen["slowest"]
    tell("memory", "slowest read beside these subscriptions", 1, f"{slowest * 1000:.0f} ms, {more:.0f} MB more", "1,000 ms")
    assert slowest < 1 or not LONG, f"another client waited for {slowest:.1f} s"


def hang_up(connection):
    with contextlib.suppress(OSError):
        connection.socket.shutdown(socket.SHUT_RDWR)


PENDING_LISTENERS, PENDING = (4_000, 20) if LONG else (1_000, 10)


def test_subscriptions_to_large_pending_transactions():
    """Each transaction is 200 KB of text, which must not exist once for each subscription."""
    arguments = ["--cache", str(CACHE), "--rpc.memory", f"{BUDGET}MiB", "--metrics", "--metrics.port", "0"]
    with Node("dev", *arguments, "--accounts", "1") as node, contextlib.ExitStack() as stack:
        sender = node.call("eth_accounts")[0]
        honest = stack.enter_context(wire.UnixSocket(node, timeout=300))
        wire.ask(honest, wire.request("eth_subscribe", "newPendingTransactions", True))
        greedy = []
        for number in range(PENDING_LISTENERS):
            if number % 100 == 0:
                greedy.append(stack.enter_context(wire.WebSocket(node, timeout=300)))
            assert "result" in wire.ask(greedy[-1], wire.request("eth_subscribe", "newPendingTransactions", True))
        watch.forget_peak(node.process.pid)
        before = watch.memory(node.process.pid)
        threads = stack.enter_context(concurrent.futures.ThreadPoolExecutor(len(greedy)))
        for connection in greedy:
            # The threads end with the connections, also if the test fails.
            stack.callback(hang_up, connection)
        reading = [threads.submit(read_on, connection) for connection in greedy]
        with watched(node, "subscriptions to large pending transactions", PENDING_LISTENERS * PENDING):
            data = "0x" + "11" * 100_000
            wanted = {"from": sender, "to": OTHER, "gas": hex(5_000_000), "data": data}
            # Not over HTTP, where the sender would be the same client as the subscriber.
            with wire.UnixSocket(node, timeout=300) as other:
                sent = [wire.ask(other, wire.request("eth_sendTransaction", wanted))["result"] for _ in range(PENDING)]
            told = [json.loads(honest.receive())["params"]["result"] for _ in sent]
            time.sleep(2)
        for connection in greedy:
            hang_up(connection)
        came = sum(thread.result() for thread in reading)
        more = watch.peak_memory(node.process.pid) - before
    assert [transaction["hash"] for transaction in told] == sent, "an honest subscription is told of all, in order"
    assert all(transaction["input"] == data for transaction in told)
    assert came > 0, "the greedy client was told of something"
    assert more < SHARE + 64, f"{more:.0f} MB more"


POOLED = 1_000 if LONG else 110


def test_the_content_of_a_full_pool():
    arguments = ["--cache", str(CACHE), "--rpc.memory", f"{BUDGET}MiB", "--metrics", "--metrics.port", "0"]
    with Node("dev", *arguments, "--block-time", "1h", "--gas-limit", "2000000000") as node:
        senders = node.call("eth_accounts")
        data = "0x" + "00" * 125_000
        with wire.UnixSocket(node, timeout=120) as connection:
            sent = 0
            for number in range(POOLED):
                sending = {"from": senders[number % len(senders)], "to": OTHER, "data": data, "gas": hex(2_000_000)}
                sent += "result" in wire.ask(connection, wire.request("eth_sendTransaction", sending))
        assert sent * 125_000 * 3 > SHARE * MB, f"the pool took {sent} transactions: too few for more than a share"
        count = 4 if LONG else 2
        before = watch.memory(node.process.pid)
        with watched(node, "the content of a full pool", count * sent):
            for method in ("eth_pendingTransactions", "txpool_content") * count:
                with wire.UnixSocket(node, timeout=120) as connection:
                    code, message = wire.code_of(wire.ask(connection, wire.request(method)))
                assert code == LIMIT and "memory" in message, f"{method}: {code} {message}"
            more = watch.peak_memory(node.process.pid) - before
            assert more < sent * 125_000 / MB, f"{more:.0f} MB more for answers that are refused"
            lines = node.call("txpool_inspect")
            of_one = node.call("txpool_contentFrom", senders[0])
        assert sum(map(len, lines["pending"].values())) == sent
        assert {transaction["input"] for transaction in of_one["pending"].values()} == {data}
        settle(node)


RUNS, OVERRIDES = (16, 200_000) if LONG else (4, 40_000)


def test_calls_that_take_memory_while_they_run(node):
    # PUSH0, JUMPDEST, TSTORE(i, i), i += 1, JUMP.
    transient = {LOOP: {"code": "0x5f5b80805d600101600156"}}
    # MSTORE(2^30, 0): one instruction.
    large = {LOOP: {"code": "0x5f634000000052"}}
    # JUMPDEST, LOG0(0, 1 MiB), JUMP.
    logging = {LOOP: {"code": "0x5b620fffff5fa05f56"}}
    empty = {f"0x{number:040x}": {} for number in range(OVERRIDES)}
    call = {"to": LOOP, "gas": hex(10**15)}
    shapes = [
        ("transient storage", wire.request("eth_call", call, "latest", transient)),
        ("one instruction", wire.request("eth_call", call, "latest", large)),
        ("logs", wire.request("eth_call", call, "latest", logging)),
        ("empty overrides", wire.request("eth_call", call, "latest", empty)),
        ("an estimate", wire.request("eth_estimateGas", call, "latest", transient)),
        ("an access list", wire.request("eth_createAccessList", call, "latest", transient)),
    ]
    for what, text in shapes:
        with watched(node, f"calls that grow by {what}", RUNS):
            def run(_):
                with wire.UnixSocket(node, timeout=300) as connection:
                    # A large message may be refused before it is sent whole.
                    with contextlib.suppress(wire.Hung):
                        connection.send_message(text)
                    return wire.code_of(json.loads(connection.receive()))

            with concurrent.futures.ThreadPoolExecutor(4) as threads:
                answers = list(threads.map(run, range(RUNS)))
        assert LIMIT in {code for code, _ in answers}, f"{what}: {answers}"
        assert any("memory" in message for _, message in answers), f"{what}: {answers}"
    settle(node)


SENDS, GAS = (8, 1 << 24) if LONG else (4, 1 << 22)
"""Transactions of the largest block, and the gas of each: at most what one may have, 2^24."""


@pytest.fixture(scope="module")
def largest_block():
    """A node with a block full of transactions that loop, and its number."""
    arguments = ["--cache", str(CACHE), "--rpc.memory", f"{BUDGET}MiB", "--rpc.tracetimeout", "60s", "--metrics", "--metrics.port", "0"]
    with Node("dev", *arguments, "--block-time", "2s", "--gas-limit", str(SENDS * GAS)) as running:
        senders = running.call("eth_accounts")[:SENDS]
        # Writes a word and continues until the gas is used up: JUMPDEST, MSTORE(0, 1), JUMP.
        sending = {"data": "0x5b6001600052600056", "gas": hex(GAS)}
        texts = [wire.request("eth_sendTransaction", {"from": sender, **sending}) for sender in senders]
        with wire.UnixSocket(running, timeout=120) as connection:
            connection.send_message(b"[" + b",".join(texts) + b"]")
            sent = [answer["result"] for answer in json.loads(connection.receive())]
        deadline = time.monotonic() + 120
        while None in (receipts := [running.call("eth_getTransactionReceipt", hash) for hash in sent]):
            assert time.monotonic() < deadline, "the transactions are in no block"
            time.sleep(0.2)
        used = {}
        for receipt in receipts:
            used[receipt["blockNumber"]] = used.get(receipt["blockNumber"], 0) + int(receipt["gasUsed"], 16)
        number = max(used, key=used.get)
        assert used[number] >= SENDS // 2 * GAS, f"no block is large: {used}"
        watch.forget_peak(running.process.pid)
        yield running, number
        assert running.process.poll() is None, "the node has died"


def test_traces_of_the_largest_block(largest_block):
    node, number = largest_block
    options = [{"enableMemory": True, "enableReturnData": True}, {}, {"tracer": "callTracer"}, {"tracer": "prestateTracer"}]
    count = 4 if LONG else 2
    with watched(node, "traces of the largest block", count * len(options)):
        def trace(asked):
            with wire.UnixSocket(node, timeout=600) as connection:
                return wire.ask(connection, wire.request("debug_traceBlockByNumber", number, {**asked, "timeout": "60s"}))

        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(trace, options * count))
    found = codes(answers)
    assert found <= {0, LIMIT, -32000, -32003}, found
    # A trace that is too large fails by itself within the answer for its block.
    small = trace({"tracer": "callTracer"})["result"]
    assert all("result" in one for one in small), "a trace that fits is answered"
    settle(node)


def test_released_memory_is_returned_to_the_system(node):
    time.sleep(15)
    found, explained = watch.memory(node.process.pid), cached(node)
    more = found - explained - node.unloaded
    peak = watch.peak_memory(node.process.pid)
    assert more < 64, f"{found:.0f} MB, of which caches explain {explained:.0f} and the program {node.unloaded:.0f}"
    tell("memory", "15 s after all clients have gone", 1, f"{more:.0f} MB more than caches explain ({peak:.0f} MB before)", "64 MB")
