"""Requests built from the node's own OpenRPC document, with one value replaced by one of another type or form. None may
result in an internal error, in a panic, or in no answer."""

import json
import os
import random
import re
import time

import pytest

import wire
from figures import LONG, tell
from tenon_node import Node, folder

#: Number of requests for each profile; together 100,000 in the long form.
COUNT = int(os.environ.get("TENON_SPOILED", 100_000 if LONG else 3_000)) // 2
SEED = int(os.environ.get("TENON_SEED", random.randrange(1 << 32)))
NAMESPACES = "eth,net,web3,txpool,debug,admin,miner,personal,rpc,Consensus,XDPoS"
INTERNAL_ERROR = -32603

#: Methods that would disable this test, or change the chain during other requests: they are called only with too many
#: parameters.
CLOSING = re.compile(
    r"admin_(start|stop)(RPC|WS|HTTP)|admin_.*Module.*|admin_setExposure|admin_reloadSettings|debug_setHead"
    # These record for as long as their caller requests.
    r"|debug_(cpuProfile|blockProfile|mutexProfile|goTrace)"
    # These wait for a block or a person.
    r"|eth_sendRawTransactionSync|personal_openWallet"
)
ADDRESS = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
#: Values that are valid in many places.
KNOWN = [ADDRESS, "0x" + "11" * 20, "0x" + "22" * 32, "0x0", "0x1", "0x5208", "0x", "0x1234", "latest", "earliest", "pending", "safe", "finalized"]
#: Values that are valid nowhere, or only in a few places.
ODD = [
    None, True, False, 0, -1, 1, 2**53 + 1, 10**30, 1.5, 1e308, "", " ", "0", "-1", "0x-1", "0xg", "0X1", "0x123", "0x" + "f" * 65,
    "0x" + "f" * 3000, "xdc" + "11" * 20, "\u0000", "\u202e\U0001f600", "latest ", [], {}, [[]], [None], [[[[[[[[]]]]]]]], {"": None},
    {"number": -1}, {"blockHash": 7}, {"to": []}, {"fromBlock": {}}, ["0x1"] * 70, {"tracer": 1}, {"tracer": "x" * 400},
]


def right(schema, generator, depth=0):
    """A value that matches a schema, as far as the schema determines it."""
    if depth > 4:
        return None
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return right(generator.choice(alternatives), generator, depth + 1)
    if "enum" in schema:
        return generator.choice(schema["enum"])
    kind = schema.get("type")
    kind = generator.choice(kind) if isinstance(kind, list) else kind
    if kind == "boolean":
        return generator.random() < 0.5
    if kind in ("integer", "number"):
        return generator.choice([0, 1, 7, 100])
    if kind == "array":
        items = schema.get("items")
        return [right(items if isinstance(items, dict) else {}, generator, depth + 1) for _ in range(generator.randrange(3))]
    if kind == "object":
        members = schema.get("properties", {})
        chosen = [name for name in members if generator.random() < 0.6]
        return {name: right(members[name], generator, depth + 1) for name in chosen}
    return generator.choice(KNOWN)


def spoiled(value, generator):
    """Returns the value with one part of it replaced."""
    if isinstance(value, list) and value and generator.random() < 0.8:
        at = generator.randrange(len(value))
        return value[:at] + [spoiled(value[at], generator)] + value[at + 1 :]
    if isinstance(value, dict) and value and generator.random() < 0.8:
        at = generator.choice(sorted(value))
        return value | {at: spoiled(value[at], generator)}
    return generator.choice(ODD)


def requests(document, generator):
    """Yields requests endlessly."""
    methods = sorted(document["methods"], key=lambda method: method["name"])
    while True:
        method = generator.choice(methods)
        params = [right(param.get("schema", {}), generator) for param in method.get("params", [])]
        if CLOSING.fullmatch(method["name"]):
            yield method["name"], params + [None] * 9
            continue
        match generator.randrange(8):
            case 0:
                params = params[: generator.randrange(len(params) + 1)]
            case 1:
                params = params + [generator.choice(ODD)]
            case 2:
                params = generator.choice([{}, None, "0x", 7, {"block": "latest"}])
            case _:
                params = spoiled(params, generator) if params else params
        # The parameters remain something other than a list only if that was chosen.
        yield method["name"], params if isinstance(params, list) or generator.random() < 0.5 else [params]


def answer_to(connection, text):
    """The answer to a request; skips notifications of subscriptions that earlier requests opened."""
    answer = wire.ask(connection, text)
    while answer is not None and "method" in answer:
        answer = json.loads(connection.receive())
    return answer


@pytest.mark.parametrize("profile", ("ethereum", "native"))
def test_spoiled_requests_are_answered(profile):
    print(f"TENON_SEED={SEED}")
    generator, tally, slowest = random.Random(SEED), {}, (0, "")
    arguments = ("--http.api", NAMESPACES, "--ws.api", NAMESPACES, "--auth.namespaces", "", "--rpc.evmtimeout", "2s", "--lightkdf")
    with folder() as path, Node("dev", "--profile", profile, *arguments, datadir=path / "data") as node:
        document = node.call("rpc_discover")
        connections = [transport(node, timeout=60) for transport in wire.TRANSPORTS]
        generated = requests(document, generator)
        for number in range(COUNT):
            name, params = next(generated)
            text = json.dumps({"jsonrpc": "2.0", "id": number, "method": name, "params": params}).encode()
            begun = time.monotonic()
            # The test fails if a connection is closed, or does not answer within 60 s.
            answer = answer_to(connections[number % len(connections)], text)
            slowest = max(slowest, (time.monotonic() - begun, text[:200]))
            assert answer is not None and answer["id"] == number, (text, answer)
            code, message = wire.code_of(answer)
            assert code != INTERNAL_ERROR and "crashed" not in message, (text, answer)
            tally[code] = tally.get(code, 0) + 1
        assert node.process.poll() is None, "the node has died"
        assert node.call("eth_chainId").startswith("0x")
        log = node.log_path.read_text(errors="replace")
        assert "panicked" not in log, log[log.index("panicked") - 500 :][:2000]
    print(f"slowest: {slowest[0]:.2f} s: {slowest[1]}")
    tell("spoiled", f"of the node's own document, {profile}", COUNT, f"answers by code {dict(sorted(tally.items()))}", "no -32603, no panic, all answered")
