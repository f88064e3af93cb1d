"""Ports that the node has mapped by a scripted router on the loopback interface (docs/spec/p2p.md 22, RFC 6886)."""

import contextlib
import os
import socket
import struct
import threading

import chains
from conftest import NAMESPACES, run, wait_for
from tenon_node import Node, unpacked

OUTSIDE = "203.0.113.7"


class Router:
    """A NAT-PMP server. Records the mapped ports by transport and port."""

    def __init__(self, address):
        self.mapped = {}
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 5351))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                request, sender = self.socket.recvfrom(1100)
                self.socket.sendto(self.answer(request), sender)

    def answer(self, request):
        if request[0] != 0:
            return struct.pack("!BBHI", 0, 128, 1, 1000)
        if request[1] == 0:
            return struct.pack("!BBHI", 0, 128, 0, 1000) + socket.inet_aton(OUTSIDE)
        _, operation, _, inside, outside, lifetime = struct.unpack("!BBHHHI", request)
        name = ("TCP" if operation == 2 else "UDP", inside)
        if lifetime:
            self.mapped[name] = lifetime
        else:
            self.mapped.pop(name, None)
        return struct.pack("!BBHIHHI", 0, 128 + operation, 0, 1000, inside, outside if lifetime else 0, lifetime)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def test_a_node_announces_the_address_that_its_router_names_and_removes_its_ports(tmp_path):
    genesis = unpacked(chains.genesis_file("local"), tmp_path / "genesis.json")
    address = f"127.66.{os.getpid() % 250}.1"
    flags = ["--genesis", genesis, "--p2p", "--p2p.addr", "0.0.0.0", "--port", "0", *NAMESPACES]
    with Router(address) as router:
        with Node("run", *flags, "--nat", f"natpmp:{address}", datadir=tmp_path / "data") as node:
            shown = wait_for(lambda: node.call("admin_nodeInfo"), lambda shown: shown["ip"] == OUTSIDE, seconds=30)
            port = shown["ports"]["listener"]
            assert f"@{OUTSIDE}:{port}" in shown["enode"]
            assert router.mapped == {("TCP", port): 1200, ("UDP", port): 1200}
            # Off and on again at run time: removed with the network, mapped with it.
            run("module", "disable", "network", "--datadir", tmp_path / "data")
            assert router.mapped == {}
            run("module", "enable", "network", "--datadir", tmp_path / "data")
            wait_for(lambda: len(router.mapped), lambda count: count == 2, seconds=30)
            assert node.stop() == 0
            assert router.mapped == {}


def test_a_node_starts_without_a_router_and_refuses_what_is_no_mechanism(tmp_path):
    genesis = unpacked(chains.genesis_file("local"), tmp_path / "genesis.json")
    flags = ["--genesis", genesis, "--p2p", "--p2p.addr", "0.0.0.0", "--port", "0", *NAMESPACES]
    unused = f"127.66.{os.getpid() % 250}.2"
    with Node("run", *flags, "--nat", f"natpmp:{unused}", datadir=tmp_path / "data") as node:
        assert node.call("admin_nodeInfo")["ip"] == "0.0.0.0"
        assert node.stop() == 0
    for nat, reason in [("magic", "unknown mechanism"), ("extip:", "missing IP address"), ("natpmp:x", "invalid IP address")]:
        failed = run(*["run", *flags, "--nat", nat, "--datadir", tmp_path / "data"], check=False)
        told = failed.stderr + failed.stdout
        told = told if isinstance(told, str) else told.decode()
        assert failed.returncode == 2 and reason in told, told
