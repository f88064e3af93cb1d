"""Requests that would run for ever: cut at their limit with the reference's error, and stopped when nobody waits any more.

Whether a request still costs anything is read off the node's threads: bounds are generous, figures are printed.
"""

import json
import threading
import time

import pytest

import watch
import wire
from tenon_node import Node

LOOP = "5b600056"
"""JUMPDEST, PUSH1 0, JUMP."""
LOGS = "5b5f5fa05a61ffff105f5700"
"""Makes logs without topics until hardly any gas is left."""
ENDLESS = hex(10**15)
LIMIT = ["--rpc.gascap", "0", "--rpc.evmtimeout", "1s", "--rpc.tracetimeout", "1s"]
NO_LIMIT = ["--rpc.gascap", "0", "--rpc.evmtimeout", "10m", "--rpc.tracetimeout", "5m", "--rpc.logslimit", "10000000"]


def send(node, **transaction):
    """Sends a transaction and gives its receipt."""
    sent = node.call("eth_sendTransaction", {"from": node.call("eth_accounts")[0], "gas": "0xffffff", **transaction})
    deadline = time.monotonic() + 60
    while (receipt := node.call("eth_getTransactionReceipt", sent)) is None:
        assert time.monotonic() < deadline, "no receipt"
        time.sleep(0.01)
    return receipt


def deploy(node, code):
    """A contract of this code."""
    size = len(code) // 2
    # PUSH size bytes of code, MSTORE at 0, RETURN the last size bytes of the word.
    text = f"0x{0x5F + size:02x}{code}5f5260{size:02x}60{32 - size:02x}f3"
    receipt = send(node, data=text, gas="0x186a0")
    assert node.call("eth_getCode", receipt["contractAddress"], "latest") == "0x" + code
    return receipt["contractAddress"]


def endless(address):
    """Calls that never end of themselves, and the error that ends them."""
    call = {"to": address, "gas": ENDLESS}
    aborted, traced = "execution aborted (timeout = 1s)", "execution timeout"
    return {
        "eth_call": (wire.request("eth_call", call, "latest"), aborted),
        "eth_call with overrides": (
            wire.request("eth_call", {"to": "0x" + "ee" * 20, "gas": ENDLESS}, "latest", {"0x" + "ee" * 20: {"code": "0x" + LOOP}}),
            aborted,
        ),
        "eth_createAccessList": (wire.request("eth_createAccessList", {**call}), aborted),
        "debug_traceCall, callTracer": (wire.request("debug_traceCall", call, "latest", {"tracer": "callTracer"}), traced),
        "debug_traceCall, structured": (wire.request("debug_traceCall", call, "latest", {}), traced),
    }


@pytest.fixture(scope="module")
def node():
    with Node("dev", *LIMIT) as running:
        running.loop = deploy(running, LOOP)
        yield running
        assert running.process.poll() is None, "the node has died"


def test_calls_without_end_are_cut_at_their_limit_and_free_their_threads(node):
    print()
    for name, (text, message) in endless(node.loop).items():
        with wire.UnixSocket(node) as connection:
            begun = time.monotonic()
            found = wire.code_of(wire.ask(connection, text))
            print(f"{name}: {found} after {time.monotonic() - begun:.2f} s")
            assert found == (-32000, message), name
    idle = watch.idle_after(node.process.pid, 10)
    assert idle is not None, "the node still works though every call is answered"

    # Many more than there are threads, and meanwhile somebody who wants little.
    answers = []
    text, message = endless(node.loop)["eth_call"]

    def one_client():
        with wire.Http(node, timeout=120) as connection:
            answers.append(wire.code_of(wire.ask(connection, text)))

    clients = [threading.Thread(target=one_client) for _ in range(12)]
    with watch.other_clients(node) as figures:
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        others = figures()
    assert answers == [(-32000, message)] * 12
    assert others["failures"] == 0
    idle = watch.idle_after(node.process.pid, 10)
    print(f"12 endless calls at once: all cut, the node idle after {idle:.2f} s; others: p99 {others['p99']:.1f} ms, {others['answers']} answers")


def test_what_is_bounded_by_gas_says_so(node):
    """An estimate tries the block's gas at most, whatever its caller allows; a transaction's trace has its gas."""
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


def test_a_search_over_everything_is_cut_at_its_bound(node):
    noisy = deploy(node, LOGS)
    logs = len(send(node, to=noisy)["logs"])
    assert logs > 20_000
    with wire.UnixSocket(node) as connection:
        begun = time.monotonic()
        found = wire.code_of(wire.ask(connection, wire.request("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest"})))
        print(f"\neth_getLogs over {logs} logs: {found} after {time.monotonic() - begun:.2f} s")
        assert found[0] == -32005 and "20000" in found[1]
        assert wire.ask(connection, wire.request("eth_getLogs", {"fromBlock": "0x0", "toBlock": "0x0"}))["result"] == []


@pytest.fixture(scope="module")
def patient_node():
    with Node("dev", *NO_LIMIT, "--http.requesttimeout", "10m") as running:
        running.loop = deploy(running, LOOP)
        noisy = deploy(running, LOGS)
        for _ in range(6):
            send(running, to=noisy)
        yield running
        assert running.process.poll() is None, "the node has died"


@pytest.mark.parametrize("transport", wire.TRANSPORTS, ids=lambda transport: transport.name)
def test_work_stops_when_its_client_has_gone(patient_node, transport):
    pid = patient_node.process.pid
    print()
    for name, (text, _) in endless(patient_node.loop).items():
        connection = transport(patient_node)
        connection.send_message(text)
        assert watch.busy_within(pid, 20), f"{name} does not run"
        connection.close()
        idle = watch.idle_after(pid, 5)
        assert idle is not None, f"{name} over {transport.name} still runs 5 s after its client has gone"
        print(f"{transport.name}, {name}: at rest {idle * 1000:.0f} ms after the client has gone")
    assert patient_node.call("eth_chainId")


def test_a_search_stops_when_its_client_has_gone(patient_node):
    """Nothing matches, so that nothing bounds the search but its range; many at once, so that it lasts."""
    pid = patient_node.process.pid
    nothing = json.loads(wire.request("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest"}))
    connection = wire.UnixSocket(patient_node)
    connection.send_message(json.dumps([{**nothing, "id": number} for number in range(400)]).encode())
    assert watch.busy_within(pid, 20), "the search does not run"
    connection.close()
    idle = watch.idle_after(pid, 10)
    assert idle is not None, "the search still runs 10 s after its client has gone"
    print(f"\neth_getLogs over everything: at rest {idle * 1000:.0f} ms after the client has gone")
