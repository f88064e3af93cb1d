#!/usr/bin/env python3
"""Scripted peers of a bench, with the code of tests/network/peer.py. Runs under the tests' Python, which has its libraries.

  network_peers.py idle ENODE NETWORK GENESIS COUNT     connects, says so, and only answers Pings until its input ends
"""

import contextlib
import pathlib
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "network"))

from peer import PING, PONG, Closed, Peer  # noqa: E402


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


if __name__ == "__main__":
    url, chain, first, number = sys.argv[2:]
    idle(url, int(chain), bytes.fromhex(first.removeprefix("0x")), int(number))
