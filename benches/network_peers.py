#!/usr/bin/env python3
"""Scripted peers of a bench, with the code of tests/network/peer.py. Runs under the tests' Python, which has its libraries.

  network_peers.py idle ENODE NETWORK GENESIS COUNT     connects, says so, and only answers Pings until its input ends
  network_peers.py watch ENODE NETWORK GENESIS BLOCKS   milliseconds from each block's due time to its arrival, as JSON
"""

import contextlib
import json
import pathlib
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "network"))

import rlp  # noqa: E402
from peer import PING, PONG, Closed, Peer  # noqa: E402

NEW_BLOCK = 0x17
NUMBER, TIMESTAMP = 8, 11
# Seconds between two blocks of the chain `load`.
PERIOD = 1


def connected(enode, network, genesis, source):
    # A Ping comes every 15 seconds. A peer that hears nothing for longer has lost its connection.
    peer = Peer(enode, source=source, timeout=40)
    peer.handshake()
    peer.hello()
    peer.status(network, genesis)
    return peer


def stay(peer):
    with contextlib.suppress(Closed, OSError):
        while True:
            if peer.receive()[0] == PING:
                peer.send(PONG, b"\xc0")


def idle(enode, network, genesis, count):
    # An address may begin ten handshakes at a time.
    peers = [connected(enode, network, genesis, f"127.0.1.{place + 1}") for place in range(count)]
    threads = [threading.Thread(target=stay, args=[peer], daemon=True) for peer in peers]
    for thread in threads:
        thread.start()
    print("connected", flush=True)
    sys.stdin.read()
    print(sum(thread.is_alive() for thread in threads), flush=True)


def watch(enode, network, genesis, blocks):
    peer, waits, times = connected(enode, network, genesis, "127.0.0.1"), [], {}
    while len(waits) < blocks:
        code, payload = peer.receive()
        arrived = time.time()
        if code == PING:
            peer.send(PONG, b"\xc0")
        elif code == NEW_BLOCK:
            [[header, transactions, _], _] = rlp.decode(payload)
            number, timestamp = (int.from_bytes(header[field], "big") for field in (NUMBER, TIMESTAMP))
            times[number] = timestamp
            # A late block may have a later timestamp, so that its own does not say when it was due.
            if number - 1 in times:
                wait = 1000 * (arrived - times[number - 1] - PERIOD)
                waits.append({"milliseconds": wait, "transactions": len(transactions)})
    print(json.dumps(waits))


if __name__ == "__main__":
    command, url, chain, first, number = sys.argv[1:]
    {"idle": idle, "watch": watch}[command](url, int(chain), bytes.fromhex(first.removeprefix("0x")), int(number))
