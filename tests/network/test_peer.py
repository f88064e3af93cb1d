"""The network of the real program, tested with peers that share no code with it (docs/spec/p2p.md 6 to 15, 21, 23)."""

import contextlib
import os
import socket

import pytest
import rlp
from conftest import enode, heads, wait_for
from peer import (
    BODIES, GET_BODIES, GET_HEADERS, GET_NODE_DATA, GET_RECEIPTS, NODE_DATA, PING, PONG, RECEIPTS, Closed, Peer, keccak,
)
from tenon_node import RpcError, run

# Hostile peers use another address of the machine, so that the consequences do not affect honest ones.
HOSTILE = "127.0.0.2"


def genesis_of(node):
    return bytes.fromhex(node.call("eth_getBlockByNumber", "0x0", False)["hash"][2:])


def connected(node, **options):
    peer = Peer(enode(node), **options).handshake()
    peer.hello()
    peer.said = peer.status(int(node.call("net_version")), genesis_of(node))
    return peer


def block_hash(node, height):
    return bytes.fromhex(node.call("eth_getBlockByNumber", hex(height), False)["hash"][2:])


def test_a_scripted_peer_is_served_headers_bodies_receipts_and_code(start):
    node = start("one")
    head = node.call("eth_getBlockByNumber", "latest", False)
    with connected(node) as peer:
        version, network, difficulty, best, genesis = peer.said
        assert (version, int.from_bytes(network, "big")) == (b"\x64", 5151)
        assert best.hex() == head["hash"][2:] and genesis == genesis_of(node)

        for asked, wanted in [
            ((0, 3), [0, 1, 2]),
            ((10, 3, 3), [10, 14, 18]),
            ((10, 3, 3, True), [10, 6, 2]),
            ((1, 3, 1, True), [1]),
            ((673, 5), [673]),
            ((674, 5), []),
        ]:
            assert [keccak(rlp.encode(header)) for header in peer.headers(*asked)] == [block_hash(node, n) for n in wanted]
        assert len(peer.headers(0, 1000)) == 192
        found = peer.headers(block_hash(node, 100), 2)
        assert [keccak(rlp.encode(header)) for header in found] == [block_hash(node, 100), block_hash(node, 101)]

        height = next(n for n in range(1, 673) if int(node.call("eth_getBlockTransactionCountByNumber", hex(n)), 16) > 1)
        unknown, known = bytes(32), block_hash(node, height)
        [body] = peer.ask(GET_BODIES, [unknown, known], BODIES)
        block = node.call("eth_getBlockByNumber", hex(height), False)
        encoded = [item if isinstance(item, bytes) else rlp.encode(item) for item in body[0]]
        assert [f"0x{keccak(item).hex()}" for item in encoded] == block["transactions"]
        [receipts] = peer.ask(GET_RECEIPTS, [known], RECEIPTS)
        assert len(receipts) == len(block["transactions"])
        assert peer.ask(GET_RECEIPTS, [genesis], RECEIPTS) == [[]]

        code = bytes.fromhex(node.call("eth_getCode", "0x0000000000000000000000000000000000000088", "latest")[2:])
        assert peer.ask(GET_NODE_DATA, [keccak(code), bytes(32)], NODE_DATA) == [code]


def test_requests_that_arrive_together_are_answered_in_order(start):
    node = start("one")
    with connected(node) as peer:
        for height in range(50):
            peer.send(GET_HEADERS, rlp.encode([height, 1, 0, 0]))
        answers = [peer.message(GET_HEADERS + 1) for _ in range(50)]
    assert [int.from_bytes(header[8], "big") for [header] in answers] == list(range(50))


def test_operators_see_peers_connect_and_disconnect(start):
    node = start("one")
    assert node.call("net_peerCount") == "0x0" and node.call("net_listening") is True
    assert node.call("eth_protocolVersion") == "0x64"
    with connected(node) as peer:
        [seen] = wait_for(lambda: heads(node), bool)
        assert seen["id"] == peer.id.hex() and seen["name"] == "scripted peer"
        assert seen["caps"] == ["eth/62", "eth/63", "eth/100"]
        assert seen["network"]["inbound"] and not seen["network"]["static"]
        assert seen["protocols"]["eth"] == {"version": 100, "difficulty": 1, "head": f"0x{genesis_of(node).hex()}"}
        assert node.call("net_peerCount") == "0x1"
        assert seen["id"][:16] in run("peers", "--datadir", node.datadir).stdout
        assert run("peers", "self", "--datadir", node.datadir).stdout.strip() == enode(node)

        assert node.call("admin_removePeer", f"enode://{peer.id.hex()}@127.0.0.1:1") is True
        assert peer.wait_until_closed() == 0
    wait_for(lambda: node.call("admin_peers"), lambda peers: not peers)
    with pytest.raises(RpcError, match="invalid enode: invalid node ID"):
        node.call("admin_addPeer", "enode://abcd@1.2.3.4:5")


def test_the_network_can_be_stopped_and_started_at_run_time(start):
    node = start("one")
    url = enode(node)
    with connected(node) as peer:
        run("module", "disable", "network", "--datadir", node.datadir)
        assert peer.wait_until_closed() == 8
    assert "enode" not in node.call("admin_nodeInfo")
    with pytest.raises(RpcError, match="the peer-to-peer network is off"):
        node.call("admin_addPeer", url)
    run("module", "enable", "network", "--datadir", node.datadir)
    assert enode(node).split("@")[0] == url.split("@")[0], "the key outlives it"
    with connected(node) as peer:
        assert peer.headers(0, 1)
    assert (node.datadir / "network" / "nodekey").stat().st_mode & 0o777 == 0o600
    assert node.stop() == 0


def test_the_network_is_off_by_default(start):
    node = start("one", "--p2p=false")
    assert node.call("net_peerCount") == "0x0" and node.call("admin_peers") == []
    assert "enode" not in node.call("admin_nodeInfo")


def test_two_nodes_connect_by_url_and_list_each_other(start):
    one, other = start("one"), start("other", with_blocks=False)
    assert other.call("admin_addPeer", enode(one)) is True
    [seen] = wait_for(lambda: heads(other), bool)
    [met] = wait_for(lambda: heads(one), bool)
    assert seen["network"]["static"] and not seen["network"]["inbound"] and met["network"]["inbound"]
    best = one.call("eth_getBlockByNumber", "latest", False)
    assert seen["protocols"]["eth"]["head"] == best["hash"]
    assert seen["protocols"]["eth"]["difficulty"] == int(best["totalDifficulty"], 16)
    assert met["protocols"]["eth"]["head"] == f"0x{genesis_of(one).hex()}"


def test_two_nodes_find_each_other_by_discovery_alone(start):
    relay = start("relay", "--maxpeers", "1")
    # The relay's only inbound slot is taken, so it only tells the nodes of each other.
    with connected(relay, source="127.0.0.3"):
        one, other = (start(name, "--bootnodes", enode(relay), with_blocks=False) for name in ("one", "other"))
        wanted = enode(other).removeprefix("enode://").split("@")[0]
        wait_for(lambda: [peer["id"] for peer in heads(one)], lambda ids: wanted in ids)


def test_a_wrong_chain_version_or_first_message_gets_its_reason(start):
    node = start("one")
    genesis = genesis_of(node)
    for network, first, version in [(50, genesis, 100), (5151, bytes(32), 100), (5151, genesis, 63)]:
        with Peer(enode(node)).handshake() as peer:
            peer.hello()
            with pytest.raises(Closed) as closed:
                peer.status(network, first, version=version)
                peer.receive()
            assert closed.value.reason in (0x10, None)
    with Peer(enode(node), source=HOSTILE).handshake() as peer:
        peer.hello()
        peer.send(GET_HEADERS, rlp.encode([1, 1, 0, 0]))
        assert peer.wait_until_closed() == 0x10
    with Peer(enode(node), source=HOSTILE).handshake() as peer:
        peer.hello(capabilities=(("les", 2), ("eth", 100)))
    with Peer(enode(node), source=HOSTILE).handshake() as peer:
        peer.hello(capabilities=(("les", 2),))
        assert peer.wait_until_closed() == 3


def test_a_second_connection_is_admitted_and_a_third_is_not(start):
    node = start("one")
    with connected(node) as first, connected(node, key=first.key) as second:
        assert wait_for(lambda: node.call("net_peerCount"), lambda count: count == "0x1")
        with Peer(enode(node), key=first.key).handshake() as third:
            with pytest.raises(Closed) as closed:
                third.receive()
            assert closed.value.reason == 5
        assert second.headers(3, 1) == first.headers(3, 1)


def test_pings_are_answered_and_peers_without_compression_are_served(start):
    node = start("one")
    with connected(node) as peer:
        peer.send(PING, b"\xc0")
        assert peer.receive()[0] in (PONG, GET_HEADERS)
    with Peer(enode(node)).handshake() as peer:
        peer.hello(version=4)
        peer.status(5151, genesis_of(node))
        assert len(peer.headers(0, 2)) == 2


# Each begins like an honest peer and ends in a way of its own.
def silent(peer):
    peer.socket.settimeout(30)


def half_a_packet(peer):
    peer.socket.sendall(peer.auth()[:100])


def garbage(peer):
    peer.socket.sendall(os.urandom(2000))


def wrong_mac(peer):
    peer.handshake()
    peer.hello()
    frame = bytearray(peer.frame(b"\x10\xc0"))
    frame[20] ^= 1
    peer.socket.sendall(frame)


def oversized_frame(peer):
    peer.handshake()
    peer.hello()
    peer.socket.sendall(peer.frame_header(0xFFFFFF))


def oversized_hello(peer):
    peer.handshake()
    peer.send(0, rlp.encode([b"\5", bytes(3000), [], b"", peer.id]))


def snappy_bomb(peer):
    peer.handshake()
    peer.hello()
    peer.socket.sendall(peer.frame(b"\x11" + b"\xff\xff\xff\x7f" + b"\0" * 100))


def no_status(peer):
    peer.handshake()
    peer.hello()


def unknown_code(peer):
    peer.handshake()
    peer.hello()
    peer.send(0x10 + 227, b"\xc0")


@pytest.mark.parametrize(
    "attack",
    [silent, half_a_packet, garbage, wrong_mac, oversized_frame, oversized_hello, snappy_bomb, no_status, unknown_code],
)
def test_hostile_connections_are_closed_and_others_served(start, attack):
    node = start("one")
    with connected(node) as honest, Peer(enode(node), source=HOSTILE) as peer:
        attack(peer)
        try:
            while peer.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass
        assert honest.headers(5, 1)
        assert node.process.poll() is None


def test_a_flood_of_connections_from_one_address_leaves_room_for_others(start):
    node = start("one")
    host, port = enode(node).split("@")[1].split("?")[0].rsplit(":", 1)
    flood = [socket.create_connection((host, int(port)), 60, source_address=(HOSTILE, 0)) for _ in range(300)]
    with connected(node) as honest:
        assert honest.headers(5, 1)
    for connection in flood:
        connection.settimeout(60)
        try:
            assert connection.recv(1) == b""
        except ConnectionResetError:
            pass
        connection.close()


def test_silent_connections_of_few_addresses_leave_room_for_others(start):
    """Ten from each of five addresses occupy all slots of handshakes."""
    node = start("one")
    host, port = enode(node).split("@")[1].split("?")[0].rsplit(":", 1)
    with contextlib.ExitStack() as stack:
        for place in range(50):
            held = socket.create_connection((host, int(port)), 60, source_address=(f"127.0.2.{place % 5}", 0))
            stack.callback(held.close)
        for place in range(8):
            with connected(node, source=f"127.0.3.{place}") as peer:
                assert len(peer.headers(0, 3)) == 3


def resident(node):
    with open(f"/proc/{node.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) << 10


def test_frames_that_never_end_use_bounded_memory(start):
    node = start("one", "--maxpeers", "50")
    before = resident(node)
    peers = []
    for index in range(12):
        peer = connected(node, source=f"127.0.1.{index + 1}")
        # 9 MiB of a frame of 10 MiB that is never completed.
        peer.socket.sendall(peer.frame_header(10 << 20))
        peers.append(peer)
    part = bytes(1 << 20)
    for _ in range(9):
        for peer in peers:
            peer.socket.settimeout(0.5)
            try:
                peer.socket.sendall(part)
            except (TimeoutError, OSError):
                # The node has stopped reading, as intended.
                pass
    with connected(node) as honest:
        assert honest.headers(5, 1)
    # 108 MiB were in transit. The limit for received and unprocessed data is 64 MiB; here it is 18 MiB.
    assert resident(node) - before < 64 << 20
    for peer in peers:
        peer.socket.close()


def test_a_ban_survives_a_restart(start):
    node = start("one")
    with connected(node, source=HOSTILE) as peer:
        key = peer.key
        peer.send(GET_BODIES, b"no list")
        assert peer.wait_until_closed() in (0, 0x10)
    # Each message costs 50 points, which halve in ten minutes, and 100 are a ban: the second message is enough only within the
    # same second. If it was, the node refuses the next connection.
    for _ in range(2):
        with contextlib.suppress(Closed), connected(node, source=HOSTILE, key=key) as peer:
            peer.send(GET_BODIES, b"no list")
            assert peer.wait_until_closed() in (0, 0x10)
    refused = lambda: Peer(enode(node), source=HOSTILE, key=key).handshake().wait_until_closed()  # noqa: E731
    assert refused() == 3
    assert node.stop() == 0
    node = start("one")
    assert refused() == 3
    with connected(node) as honest:
        assert honest.headers(5, 1)
    assert "banned" in node.log_path.read_text()
