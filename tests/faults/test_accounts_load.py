"""Accounts under load: nonces while plugins are replaced, and clients that try passwords.

The long form (`make abuse`) sends 10,000 transactions, replaces plugins fifty times, and holds delays against their bound.
"""

import os
import threading
import time

import pytest

import watch
import wire
from figures import LONG, tell
from tenon_node import Node
from test_exposure import over_socket
from test_fairness import p99

SENDS = int(os.environ.get("TENON_SENDS", 10_000 if LONG else 320))
REPLACEMENTS = 50 if LONG else 6
CLIENTS, GUESSERS = 64, 16
SECONDS = 20 if LONG else 3
PASSWORD = "the right one"
MORE_MILLISECONDS, MORE_MEBIBYTES = 50, 600


@pytest.fixture(scope="module")
def node():
    """A node with an account in a key file, unlocked and funded. Deriving keys has the lowest priority: on a busy
    machine, a call with a password takes longer than the usual grace period of a plugin that is replaced."""
    with Node("dev", "--lightkdf", "--plugins.grace", "1m", "--http.api", "eth,net,personal", "--auth.namespaces", "") as running:
        rich = over_socket(running, "eth_accounts")[0]
        running.owner = over_socket(running, "personal_importRawKey", "4c" * 32, PASSWORD)
        over_socket(running, "eth_sendTransaction", {"from": rich, "to": running.owner, "value": hex(10**21)})
        assert over_socket(running, "personal_unlockAccount", running.owner, PASSWORD, 0) is True
        yield running
        assert running.process.poll() is None, "the node has died"


def in_threads(count, work):
    """Runs `work(number)` this many times at once; returns the problems."""
    problems = []

    def guarded(number):
        try:
            work(number)
        except Exception as problem:  # noqa: BLE001: shown by the test
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads, problems


def test_nonces_have_no_gap_and_no_double_while_plugins_are_replaced(node):
    owner, each, hashes = node.owner, SENDS // CLIENTS, []
    before = int(over_socket(node, "eth_getTransactionCount", owner, "pending"), 16)

    def send(number):
        transaction = {"from": owner, "to": "0x" + "77" * 20, "value": "0x1", "gas": "0x5208"}
        with wire.UnixSocket(node, timeout=300) as connection:
            for turn in range(each):
                # Most are sent by the unlocked account, some with the password.
                by_password = (number + turn) % 16 == 0
                request = ("personal_sendTransaction", transaction, PASSWORD) if by_password else ("eth_sendTransaction", transaction)
                answer = wire.ask(connection, wire.request(*request))
                assert "result" in answer, answer
                hashes.append(answer["result"])

    begun = time.monotonic()
    threads, problems = in_threads(CLIENTS, send)
    for number in range(REPLACEMENTS):
        over_socket(node, "admin_replaceModule", ("eth", "personal")[number % 2])
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begun

    assert problems == [], problems[:3]
    count = each * CLIENTS
    assert len(set(hashes)) == count
    with wire.UnixSocket(node) as connection:
        nonces = [int(wire.ask(connection, wire.request("eth_getTransactionByHash", hash))["result"]["nonce"], 16) for hash in hashes]
    assert sorted(nonces) == list(range(before, before + count))
    tell("accounts", f"transactions without nonce, {CLIENTS} clients", count, f"{REPLACEMENTS} replacements, {count / seconds:.0f} a second", "each nonce once, no failed call")


def balances(node, until):
    """Durations of reads until a moment, seconds."""
    durations = []
    with wire.Http(node) as connection:
        while time.monotonic() < until:
            begun = time.monotonic()
            answer = wire.ask(connection, wire.request("eth_getBalance", node.owner, "latest"))
            durations.append(time.monotonic() - begun)
            assert "result" in answer, answer
            time.sleep(0.002)
    return durations


def test_clients_that_try_passwords_delay_no_others(node):
    # The standard cost, which a client cannot choose to avoid.
    with Node("dev") as guarded:
        guarded.owner = over_socket(guarded, "personal_newAccount", PASSWORD)
        quiet = balances(guarded, time.monotonic() + SECONDS / 2)
        rest = watch.memory(guarded.process.pid)
        watch.forget_peak(guarded.process.pid)
        end, refused = time.monotonic() + SECONDS, []

        def guess(number):
            with wire.UnixSocket(guarded, timeout=300) as connection:
                turn = 0
                while time.monotonic() < end:
                    turn += 1
                    answer = wire.ask(connection, wire.request("personal_unlockAccount", guarded.owner, f"wrong {number} {turn}"))
                    assert "error" in answer, answer
                    refused.append(answer["error"]["message"])

        threads, problems = in_threads(GUESSERS, guess)
        flooded = balances(guarded, end)
        for thread in threads:
            thread.join()
        assert problems == [], problems[:3]
        grown = watch.peak_memory(guarded.process.pid) - rest
        assert over_socket(guarded, "personal_unlockAccount", guarded.owner, PASSWORD, 1) is True
    more = (p99(flooded) - p99(quiet)) * 1000
    assert grown <= MORE_MEBIBYTES, f"{grown} MB more"
    assert tell(
        "accounts",
        f"wrong passwords of {GUESSERS} clients",
        len(refused),
        f"p99 of a read {p99(flooded) * 1000:.1f} ms (quiet {p99(quiet) * 1000:.1f}), {grown} MB more",
        f"{MORE_MILLISECONDS} ms, {MORE_MEBIBYTES} MB more",
        in_time=more <= MORE_MILLISECONDS,
    )
