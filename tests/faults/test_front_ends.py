"""Malformed and hostile input on the three transports: answers are exact, memory stays bounded, other clients are served.

TENON_MALFORMED: malformed requests per transport (default 1,500; the full run is 10,000). TENON_IDLE: idle connections
(default 800; the full run is 5,000). TENON_SEED: the seed of the random requests, printed, to replay a run.
"""

import contextlib
import json
import os
import random
import time

import pytest

import watch
import wire
from figures import LONG, tell
from tenon_node import Node

MALFORMED = int(os.environ.get("TENON_MALFORMED", "1500"))
IDLE = int(os.environ.get("TENON_IDLE", "800"))
SEED = int(os.environ.get("TENON_SEED", str(random.SystemRandom().randrange(2**32))))
MB = 1 << 20
# MB. The allocator releases unused pages while it serves other requests, and keeps some of each thread's until then.
KEPT_MEMORY = 64
MAX_DELAY = 50
"""Milliseconds by which another client's p99 may grow, on an idle machine (the long form)."""
OWN_FILES = 6
"""Files that come and go without any client: tables of the database, and the harness's own connection."""

PARSE, INVALID, UNKNOWN, PARAMETERS, LIMIT, SERVER = -32700, -32600, -32601, -32602, -32005, -32000
KNOWN = {0, PARSE, INVALID, UNKNOWN, PARAMETERS, LIMIT, SERVER, -32003, 3}
ADDRESS = "0x" + "11" * 20


class Case:
    """A text, the code of its answer, and what the answer's message contains.

    `on_stream` is the message on WebSocket and socket where that differs from HTTP, whose message is always `parse error`.
    With `None` the connection closes without an answer.
    """

    def __init__(self, text, code, message="", on_stream=""):
        self.text, self.code, self.message = text, code, message
        self.on_stream = message if on_stream == "" else on_stream


def kinds(dice):
    """One malformed request of every kind; sizes and positions are random."""
    size = dice.choice([1, 7, 64, 1_000])
    deep = dice.choice([200, 3_000, 9_000])
    number = "9" * dice.randrange(30, 5_000)
    unicode = bytes(dice.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"]))
    call = wire.request
    return {
        "broken UTF-8 in a method": Case(
            b'{"jsonrpc":"2.0","id":1,"method":"eth_' + unicode + b'","params":[]}', UNKNOWN, "does not exist/is not available"
        ),
        "broken UTF-8 outside of strings": Case(unicode * size, PARSE, "parse error", "invalid character"),
        "depth within the bound": Case(
            b'{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":' + b"[" * deep + b"]" * deep + b"}", PARAMETERS, "invalid argument 0"
        ),
        "depth bomb": Case(
            b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":' + b"[" * 10_001, PARSE, "parse error", "exceeded max depth"
        ),
        "depth bomb of objects": Case(
            b'{"id":1,"method":"eth_chainId","params":[' + b'{"a":' * 10_001, PARSE, "parse error", "exceeded max depth"
        ),
        "huge block number": Case(call("eth_getBalance", ADDRESS, "0x" + "f" * size + "f" * 20), PARAMETERS, "invalid argument 1"),
        "huge plain number": Case(
            b'{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["%s",%s]}' % (ADDRESS.encode(), number.encode()),
            PARAMETERS,
            "invalid argument 1",
        ),
        "number without end of exponent": Case(b'{"id":1e,"method":"eth_chainId"}', PARSE, "parse error", "invalid character ','"),
        "number with leading zero": Case(b'{"id":01,"method":"eth_chainId"}', PARSE, "parse error", "invalid character '1'"),
        "method of the wrong type": Case(b'{"jsonrpc":"2.0","id":1,"method":%d}' % size, INVALID, "invalid request"),
        "method missing": Case(b'{"jsonrpc":"2.0","id":1,"params":[]}', INVALID, "invalid request"),
        "id of the wrong type": Case(b'{"jsonrpc":"2.0","id":{"a":1},"method":"eth_chainId"}', INVALID, "invalid request"),
        "params of the wrong type": Case(b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":{"a":1}}', PARAMETERS, "non-array args"),
        "params that are a text": Case(b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":"x"}', PARAMETERS, "non-array args"),
        "argument of the wrong type": Case(call("eth_getBalance", {"a": size}), PARAMETERS, "invalid argument 0"),
        "argument missing": Case(call("eth_getBalance"), PARAMETERS, "missing value for required argument 0"),
        "too many arguments": Case(call("eth_chainId", *range(size)), PARAMETERS, "too many arguments, want at most 0"),
        "unknown method": Case(call("eth_" + "x" * size), UNKNOWN, "does not exist/is not available"),
        "no request at all": Case(dice.choice([b"1", b'"x"', b"true", b"null"]), INVALID, "invalid request"),
        "duplicate keys, the last counts": Case(
            b'{"id":1,"id":2,"method":"eth_nothing","method":"eth_chainId","params":[1],"params":[]}', 0
        ),
        "duplicate keys, the last is wrong": Case(
            b'{"id":1,"method":"eth_chainId","method":"eth_nothing"}', UNKNOWN, "the method eth_nothing does not exist/is not available"
        ),
        "empty batch": Case(b"[]", INVALID, "empty batch"),
        "batch of rubbish": Case(b"[" + b",".join([b"1"] * size) + b"]", INVALID, "invalid request"),
        "giant batch": Case(b"[" + b",".join([b"{}"] * 10_001) + b"]", LIMIT, "batch too large: 10001 requests, at most 10000"),
        "control character in a text": Case(b'{"id":1,"method":"eth_\x01"}', PARSE, "parse error", r"invalid character '\x01' in string literal"),
        "unknown escape": Case(rb'{"id":1,"method":"eth_\q"}', PARSE, "parse error", "invalid character 'q' in string escape code"),
        "no colon": Case(b'{"id" 1}', PARSE, "parse error", "invalid character '1' after object key"),
        "comma too many": Case(b'{"id":1,}', PARSE, "parse error", "invalid character '}'"),
        "another language": Case(b"<methodCall/>", PARSE, "parse error", "invalid character '<' looking for beginning of value"),
    }


def mutated(dice):
    """A request in which a few bytes are changed, removed or doubled. Its exact answer is unknown; only the permitted answers are."""
    text = bytearray(
        dice.choice(
            [
                wire.request("eth_getBalance", ADDRESS, "latest"),
                wire.request("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest", "topics": [None, ["0x" + "00" * 32]]}),
                b'[{"id":1,"method":"eth_chainId"},{"id":"x","method":"net_version","params":[]}]',
                wire.request("eth_call", {"to": ADDRESS, "data": "0x00"}, "latest", {ADDRESS: {"code": "0x5b"}}),
            ]
        )
    )
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(text))
        match dice.randrange(3):
            case 0:
                text[at] ^= 1 << dice.randrange(8)
            case 1:
                del text[at]
            case _:
                text[at:at] = text[at : at + dice.randrange(1, 20)]
    return bytes(text)


@pytest.fixture(scope="module")
def node():
    arguments = [f"--{name}.connections={IDLE + 400}" for name in ("http", "ws", "ipc")]
    with Node("dev", *arguments) as running:
        running.call("eth_chainId")
        yield running
        assert running.process.poll() is None, "the node has died"


def still_serves(node):
    """The node answers on every transport."""
    for transport in wire.TRANSPORTS:
        with transport(node) as connection:
            assert wire.ask(connection, wire.request("eth_chainId"))["result"]


class Costs:
    """Memory and open files of a node before and after, and the effects on other clients in between."""

    def __init__(self, node):
        still_serves(node)
        self.node, self.pid = node, node.process.pid
        self.files = watch.files_back(self.pid, 0, within=0.5)
        self.memory = watch.memory(self.pid)
        self.quiet = watch.quiet(node)
        watch.forget_peak(self.pid)

    def memory_back(self, most, within=30):
        """The memory after the node has released unused memory, for which its allocator needs some seconds."""
        deadline = time.monotonic() + within
        while (memory := watch.memory(self.pid)) > most and time.monotonic() < deadline:
            still_serves(self.node)
            time.sleep(0.1)
        return memory

    def report(self, what, others, most_memory, count=1):
        still_serves(self.node)
        peak = watch.peak_memory(self.pid)
        files, memory = watch.files_back(self.pid, self.files + OWN_FILES), self.memory_back(self.memory + KEPT_MEMORY)
        assert peak < self.memory + most_memory, "memory is not bounded"
        assert memory <= self.memory + KEPT_MEMORY, "memory is not given back"
        assert files <= self.files + OWN_FILES, "files are not given back"
        assert others["failures"] == 0 and others["answers"] > 0, "others were not served"
        bound = self.quiet["p99"] + MAX_DELAY
        assert tell(
            "clients",
            what,
            count,
            f"memory {self.memory:.0f}, at most {peak:.0f}, then {memory:.0f} MB; files {self.files}, then {files}; others: {others['answers']} "
            f"answers, failures 0, p99 {others['p99']:.1f} ms (quiet {self.quiet['p99']:.1f})",
            f"{most_memory} MB more at most, {KEPT_MEMORY} after; p99 {bound:.0f} ms",
            in_time=others["p99"] <= bound,
        ), "others were held up"


def check(transport, connection, name, case):
    """Sends a case; returns whether the connection stays open."""
    text, message = case.text, case.message if transport is wire.Http else case.on_stream
    connection.send_message(text)
    try:
        found = wire.code_of(json.loads(connection.receive()))
    except wire.Hung:
        raise AssertionError(f"{name} over {transport.name}: the connection ended without an answer") from None
    assert found[0] == case.code and message in found[1], f"{name} over {transport.name}: {found}, expected {case.code} {message!r}"
    return transport.survives_rubbish or case.code != PARSE


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
def test_malformed_requests_get_exact_errors_and_use_no_memory(node, transport):
    dice = random.Random(SEED)
    print(f"\nTENON_SEED={SEED}")
    costs = Costs(node)
    sent, begun = 0, time.monotonic()
    tally = {}
    with watch.other_clients(node) as figures:
        connection = transport(node)
        while sent < MALFORMED:
            # There are few huge requests: most of a transport's time goes to the others.
            for name, case in kinds(dice).items():
                if name == "giant batch" and sent > MALFORMED // 10:
                    continue
                if not check(transport, connection, name, case):
                    connection.close()
                    connection = transport(node)
                tally[case.code] = tally.get(case.code, 0) + 1
                sent += 1
        connection.close()
        others = figures()
    tell("requests", f"of every kind, {transport.name}", sent, f"answers by code {tally}, in {time.monotonic() - begun:.1f} s", "the code and "
                 "text of each kind")
    costs.report(f"malformed requests, {transport.name}", others, 96, sent)


def fate(transport, node, text):
    """Sends a text on a connection of its own. Returns the error code of the answer, `none` if there is no answer, or
    `closed`."""
    code = "none"
    with transport(node) as connection:
        try:
            connection.send_message(text)
            if transport is wire.UnixSocket:
                # Otherwise the node would wait for the end of an incomplete request.
                connection.socket.shutdown(1)
            elif transport is wire.WebSocket:
                # A notification is not answered, but this request is, after the previous ones.
                connection.send_message(b'{"id":"end","method":"eth_chainId"}')
            while True:
                answer = connection.receive()
                read = json.loads(answer) if answer.strip() else None
                if isinstance(read, dict) and read.get("id") == "end":
                    return code
                code = wire.code_of(read)[0] if read else "none"
                assert code in KNOWN | {"none"}, (text, answer)
                if transport is wire.Http:
                    return code
        except wire.Hung:
            return "closed" if code == "none" else code


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
def test_mutated_requests_get_an_answer_or_lose_their_connection(node, transport):
    dice = random.Random(SEED)
    print(f"\nTENON_SEED={SEED}")
    costs = Costs(node)
    tally = {}
    with watch.other_clients(node) as figures:
        for _ in range(MALFORMED // 3):
            code = fate(transport, node, mutated(dice))
            tally[code] = tally.get(code, 0) + 1
        others = figures()
    sent = MALFORMED // 3
    tell("requests", f"changed at random, {transport.name}", sent, f"answers by code {tally}", "a known code or the connection's end")
    costs.report(f"requests changed at random, {transport.name}", others, 96, sent)


HTTP_RUBBISH = [
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64, 400),
    (b"GET\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400),
    (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400),
    (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 999999999\r\n\r\n", 413),
    (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415),
    (b"BREW / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 405),
    (b"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    (b"CONNECT a.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    (b"POST / HTTP/1.1\r\nHost: " + b"a" * 400_000, 431),
    (b"POST / HTTP/1.1\r\n" + b"".join(b"A%d: b\r\n" % number for number in range(200)) + b"\r\n", 431),
    (b"DELETE / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405),
    (b"POST /admin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 404),
    (b"POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", 403),
]

WEBSOCKET_RUBBISH = [
    ("unmasked", b"\x81\x02{}", 1002),
    ("reserved bits", wire.frame(0xF1, b"{}"), 1002),
    ("unknown opcode", wire.frame(0x83, b"{}"), 1002),
    ("continuation of nothing", wire.frame(0x80, b"{}"), 1002),
    ("ping in parts", wire.frame(0x09, b"x"), 1002),
    ("ping too long", wire.frame(0x89, b"x" * 126), 1002),
    ("announces exabytes", b"\x81\xff\x0f" + b"\xff" * 7 + b"\0\0\0\0", 1009),
    ("announces more than the bound", b"\x81\xff" + (16 * MB).to_bytes(8, "big") + b"\0\0\0\0", 1009),
]


def test_invalid_http_and_frames_are_refused_with_the_protocols_codes(node):
    costs = Costs(node)
    with watch.other_clients(node) as figures:
        for text, status in HTTP_RUBBISH:
            with wire.Http(node) as connection:
                try:
                    connection.send(text)
                    connection.receive()
                except wire.Hung:
                    # The rest of a head that is too long is not read, which may cost the client the answer.
                    assert status == 431
                    continue
                assert connection.status == status, text[:80]
        for name, data, code in WEBSOCKET_RUBBISH:
            with wire.WebSocket(node) as connection:
                connection.send(data)
                with pytest.raises(wire.Hung):
                    connection.receive()
                assert connection.close_code == code, name
        others = figures()
    costs.report("broken protocols", others, 64, len(HTTP_RUBBISH) + len(WEBSOCKET_RUBBISH))


def test_huge_messages_are_refused_without_being_buffered(node):
    costs = Costs(node)
    giant = b'{"id":1,"method":"eth_chainId","params":["' + b"x" * (70 * MB)
    with watch.other_clients(node) as figures:
        for transport in (wire.UnixSocket, wire.WebSocket):
            with transport(node) as connection:
                try:
                    connection.send_message(giant)
                    answer = connection.receive()
                    assert transport is wire.UnixSocket and b"message too large" in answer, answer[:200]
                    assert wire.code_of(json.loads(answer))[0] == LIMIT
                except wire.Hung:
                    assert transport is wire.WebSocket or not connection.received
        others = figures()
    print()
    # The socket takes 64 MiB, in a buffer that doubles as it grows.
    costs.report("70 MB in one message", others, 250, 2)


def said(node, text):
    """Opens a connection and sends this text."""
    connection = wire.Http(node)
    connection.send(text)
    return connection


def test_slow_and_half_open_clients_lose_only_their_own_connections():
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
    with Node("dev", "--http.requesttimeout", "2s", "--http.idletimeout", "3s") as node:
        costs = Costs(node)
        with watch.other_clients(node) as figures:
            # All send their part at the same time: on a slow machine, sending to all one after the other would exceed
            # the time limit of a single connection.
            half_body, half_head = ([said(node, text) for _ in range(50)] for text in (head + b'\r\n{"id":1,', head))
            loris, silent = ([wire.Http(node) for _ in range(count)] for count in (100, 50))
            begun, alive, lived = time.monotonic(), list(loris), []
            for position in range(200):
                for connection in list(alive):
                    try:
                        connection.send(head[position % len(head) :][:1])
                    except wire.Hung:
                        alive.remove(connection)
                        lived.append(time.monotonic() - begun)
                if not alive:
                    break
                time.sleep(0.05)
            assert not alive, f"{len(alive)} clients that send a byte now and then are still served after {time.monotonic() - begun:.0f} s"
            for connection in half_body:
                connection.receive()
                assert connection.status == 503
            assert all(connection.is_closed(within=15) for connection in half_head + silent)
            others = figures()
            for connection in loris + half_body + half_head + silent:
                connection.close()
        print(f"\n100 slow heads cut after {min(lived):.1f} to {max(lived):.1f} s (bound 2 s and the next write), 50 half bodies answered 503, 100 half-open and silent connections closed")
        costs.report("slow and half-open clients", others, 64, 250)


def test_thousands_of_idle_connections_use_little_memory_and_block_no_other_client(node):
    count = min(IDLE, wire.open_files_allowed() - 500)
    assert count == IDLE or not LONG, f"the system allows the test too few open files for {IDLE} connections"
    costs = Costs(node)
    with watch.other_clients(node) as figures:
        idle = []
        # A third on each transport; all in one process, which has a limit of open files.
        for number in range(count):
            idle.append(wire.TRANSPORTS[number % 3](node))
        time.sleep(1)
        memory = watch.memory(costs.pid)
        files = wire.open_files(costs.pid)
        sample = random.Random(SEED).sample(idle, min(60, count))
        assert all(wire.ask(connection, wire.request("eth_chainId"))["result"] for connection in sample)
        others = figures()
    for connection in idle:
        connection.close()
    each = (memory - costs.memory) * 1024 / count
    print(f"\n{count} idle connections of {IDLE} wanted: {files} files, {each:.1f} KB each, all alive")
    assert each < 64
    costs.report(f"idle connections, {each:.1f} KB each", others, 64, count)


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
def test_a_client_that_never_reads_is_bounded(node, transport):
    """The node stops making answers for a client that never reads when its queue is full."""
    costs = Costs(node)
    # Each answer is some 15 KB: it repeats the id.
    text = wire.request("eth_chainId", id="x" * 15_000)
    with watch.other_clients(node) as figures:
        connection = transport(node, timeout=2)
        sent = 0
        try:
            while sent < 40_000:
                connection.send_message(text)
                sent += 1
        except (wire.Hung, TimeoutError):
            pass
        others = figures()
        connection.close()
    print(f"\n{transport.name}: {sent} requests taken before the node read no more")
    assert sent < 40_000, "the node takes requests for ever"
    # 64 MiB is the maximum queued on the socket, 16 MiB on the WebSocket; both hold a message being read and its
    # answer.
    costs.report(f"a client that never reads its answers, {transport.name}", others, 150)


FLOODS = {
    # What is sent first, what is sent repeatedly, whether answers are read.
    "pings, nothing read": (b"", wire.frame(0x89, b"x" * 125), False),
    "pings, all read": (b"", wire.frame(0x89, b"x" * 125), True),
    "empty parts of a message": (wire.frame(0x01, b"["), wire.frame(0x00, b""), False),
    "parts of a byte": (wire.frame(0x01, b"["), wire.frame(0x00, b" "), False),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_of_small_frames_is_bounded(node, kind):
    begin, small, reads = FLOODS[kind]
    costs, sent, piece = Costs(node), 0, small * 2_000
    with watch.other_clients(node) as figures:
        with wire.WebSocket(node, timeout=2) as connection:
            connection.send(begin)
            with contextlib.suppress(wire.Hung, TimeoutError):
                while sent < 400_000:
                    connection.send(piece)
                    sent += 2_000
                    while reads and connection.has_answer():
                        connection.more()
                        connection.received = b""
        others = figures()
    assert sent > 2_000
    # The longest message of a WebSocket, in a buffer that doubles as it grows.
    costs.report(f"a flood of small frames: {kind}", others, 96, sent)


def test_a_subscriber_that_never_reads_is_disconnected_and_the_others_receive_everything(node):
    costs = Costs(node)
    senders = node.call("eth_accounts")
    with watch.other_clients(node) as figures, wire.WebSocket(node) as reader:
        deaf = wire.WebSocket(node)
        deaf.socket.setsockopt(1, 8, 4096)
        subscriptions = 200
        for _ in range(subscriptions):
            deaf.send_message(wire.request("eth_subscribe", "newHeads"))
        assert wire.ask(reader, wire.request("eth_subscribe", "newHeads"))["result"]
        first = int(node.call("eth_blockNumber"), 16)
        blocks = 0
        while not gone(deaf) and blocks < 1_500:
            batch = [
                json.loads(wire.request("eth_sendTransaction", {"from": senders[0], "to": senders[1], "value": "0x1", "gas": "0x5208"}))
                for _ in range(20)
            ]
            node.raw(json.dumps(batch))
            blocks = int(node.call("eth_blockNumber"), 16) - first
        heard = []
        while len(heard) < blocks:
            heard.append(int(json.loads(reader.receive())["params"]["result"]["number"], 16))
        others = figures()
        assert gone(deaf), f"still subscribed after {blocks} blocks"
        deaf.close()
    print(f"\na deaf client with {subscriptions} subscriptions was let go after {blocks} blocks; another heard all {len(heard)}")
    assert heard == list(range(first + 1, first + blocks + 1))
    costs.report("a subscriber that never reads", others, 150)


def gone(connection):
    """Returns whether the node has closed a connection that reads nothing: writing then fails."""
    try:
        connection.socket.send(wire.frame(0x8A, b""))
        return False
    except OSError:
        return True
