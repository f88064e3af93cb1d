#!/usr/bin/env python3
"""Measures the network part: the cost of peers, and how fast a node syncs and makes blocks, as ratios of one run.

  sync      the chain `load` from another node of this program, compared with the import of the file; delay of RPC meanwhile
  idle      processor time for 25 peers that only answer Pings
  blocks    from a block's due time to its arrival at a peer, for a network of one masternode
  full      the same with the transactions of `load`
  live      from a block's arrival to its relay to 24 peers, and to the node's own vote; 108 masternodes
  votes     votes of 108 masternodes through the node's voting: verified, and dropped as duplicates
  frames    received frames up to their payloads, compared with cipher, MAC and Snappy alone
  distant   the chain `load` from eight peers that answer after 50 ms; two never answer, one lies
  memory    memory for 50 peers that request headers and bodies, and send transactions
  serving   answers of 192 headers and of 128 bodies per second, compared with the reference client
  reference the chain `load` from the reference client, by this program and by the reference client

The last two need the reference client's binary: TENON_REFERENCE=PATH.

The table marks rows without a measurement. All nodes share the machine with their peers.

  benches/network.py [--rounds 3] [--blocks 120] [--parts sync,idle] [--json FILE]
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

import importing
import network_live
import network_reference
import servers
from network_nodes import HEAD, bench, first_blocks, height, imported, median, node, peers, percentile, source_of
from network_nodes import wait_for_height
from targets import Target, print_measurements

IDLE_PEERS, BUSY_PEERS = 25, 50
BALANCE = {"jsonrpc": "2.0", "id": 1, "method": "eth_getBalance", "params": ["0x" + "11" * 20, "latest"]}
# Share of the expected duration of a sync during which RPC is measured, so that the sync does not end meanwhile.
ASKED_SHARE = 0.6


def sync(options, folder):
    """Alternates imports of the file with syncs of new nodes from a node with the chain. A sync during which RPC is measured is not timed."""
    source = source_of(folder)
    imported(folder / "full", source)
    files, syncs, late, quiet = [], [], [], []
    with node(folder / "full", source[0]) as full:
        address = full.call("admin_nodeInfo")["enode"]
        for number in range(options.rounds):
            files.append(importing.bench("together", source, folder)["seconds"])
            syncs.append(sync_once(folder / f"fresh-{number}", source[0], address))
            during, after = asked_while_syncing(folder / f"asked-{number}", source[0], address, ASKED_SHARE * min(syncs))
            late += [during] if during is not None else []
            quiet.append(after)
    return {"file": median(files), "sync": median(syncs), "rpc_syncing": median(late), "rpc_quiet": median(quiet)}


def sync_once(datadir, genesis, address):
    with node(datadir, genesis) as fresh:
        began = time.monotonic()
        fresh.call("admin_addPeer", address)
        wait_for_height(fresh, HEAD)
        return time.monotonic() - began


def asked_while_syncing(datadir, genesis, address, seconds):
    """The 99th percentile of a read's milliseconds during a sync, and after it. The first is `None` if the reads did not happen during the sync."""
    with node(datadir, genesis) as fresh:
        fresh.call("admin_addPeer", address)
        wait_for_height(fresh, 1)
        during = load(fresh, seconds)
        during = during if height(fresh) < HEAD else None
        wait_for_height(fresh, HEAD)
        fresh.settle()
        return during, load(fresh, seconds)


def load(server, seconds):
    command = [str(servers.BENCH), "load", *server.endpoints["HTTP"], "--body", json.dumps(BALANCE)]
    done = subprocess.run([*command, "--connections", "1", "--seconds", f"{seconds:.2f}"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the load failed: {done.stderr}")
    return json.loads(done.stdout)["p99_micros"] / 1000


def idle(options, folder):
    """Percent of a core that the node uses without peers, and with peers that only answer Pings; how many are still
    connected."""
    with node(folder / "idle", source_of(folder)[0]) as server:
        alone = share(server, options.idle_seconds)
        with peers("idle", server, "--peers", IDLE_PEERS) as process:
            server.settle()
            with_peers = share(server, options.idle_seconds)
            left = json.loads(process.communicate("", timeout=60)[0])["peers"]
    # A disconnected peer would cost nothing.
    return {"alone": alone, "with_peers": with_peers, "peers": left}


def share(server, seconds):
    before = server.cpu_seconds()
    time.sleep(seconds)
    return 100 * (server.cpu_seconds() - before) / seconds


def votes(options, _):
    """Votes per second of processor time on one core: the median of the rounds."""
    runs = [bench("votes", core=0) for _ in range(options.rounds)]
    return {name: importing.middle(runs, name)[name] for name in ("verified_a_core", "dropped_a_core")}


def frames(_, folder):
    """By kind of message: time of cipher, MAC and Snappy alone, divided by the time to receive a frame."""
    return {kind: found["ratio"] for kind, found in bench("frames", "--chain", source_of(folder)[1]).items()}


def distant(options, folder):
    """Alternates imports of the file with syncs from eight peers, timed from their first connection to the head."""
    source, files, syncs = source_of(folder), [], []
    for number in range(options.rounds):
        files.append(importing.bench("together", source, folder)["seconds"])
        with node(folder / f"distant-{number}", source[0]) as fresh:
            began = time.monotonic()
            with peers("syncing", fresh, "--chain", source[1]):
                wait_for_height(fresh, HEAD)
                syncs.append(time.monotonic() - began)
    return {"file": median(files), "sync": median(syncs)}


def memory(options, folder):
    """Memory (MiB) of a node without peers, and its peak with busy peers. The node gets its last block from a peer,
    because it ignores transactions before that."""
    source = source_of(folder)
    imported(folder / "busy", (source[0], first_blocks(source[1], HEAD, folder / "short.rlp")))
    with node(folder / "busy", source[0], "--maxpeers", str(2 * BUSY_PEERS)) as server:
        with peers("syncing", server, "--chain", source[1], "--peers", "1", "--stalling", "0", "--lying", "0"):
            wait_for_height(server, HEAD)
        server.settle()
        alone = servers.status(server.process.pid)["rss"]
        with peers("busy", server, "--chain", source[1], "--peers", BUSY_PEERS) as process:
            samples = [busy_memory(server) for _ in range(int(2 * options.busy_seconds))]
            left = json.loads(process.communicate("", timeout=60)[0])["peers"]
    return {"alone": alone, "busy": max(samples), "peers": left}


def busy_memory(server):
    time.sleep(0.5)
    return servers.status(server.process.pid)["rss"]


PARTS = {
    "sync": sync,
    "idle": idle,
    "blocks": network_live.blocks,
    "full": network_live.full,
    "live": network_live.live,
    "votes": votes,
    "frames": frames,
    "distant": distant,
    "memory": memory,
    "serving": network_reference.serving,
    "reference": network_reference.beside,
}


def measure(options):
    found = {}
    for part in options.parts:
        with tempfile.TemporaryDirectory(prefix="tenon-bench-", ignore_cleanup_errors=True) as folder:
            found[part] = PARTS[part](options, pathlib.Path(folder))
    return found


def report(found):
    return "network, as measured:\n\n" + json.dumps({part: summary(value) for part, value in found.items()}, indent=2)


def summary(value):
    if isinstance(value, dict):
        return {name: summary(each) for name, each in value.items()}
    if isinstance(value, list):
        return {"samples": len(value), "median": percentile(value, 50), "p99": percentile(value, 99), "most": value[-1] if value else None}
    return value


def targets(found):
    """Rows of the table of targets, in its order. Rows without a figure were not measured."""
    synced, idles, made = found.get("sync"), found.get("idle"), found.get("blocks")
    voted, received, distant, busy = (found.get(part) for part in ("votes", "frames", "distant", "memory"))
    served, beside, live, full = (found.get(part) for part in ("serving", "reference", "live", "full"))
    less = {"is_less_better": True}
    yield Target("sync of `load` from a node of this program ÷ import of the file", synced and synced["file"] / synced["sync"], 0.85, 0.95)
    yield Target("sync of `load` from the reference ÷ its own sync", beside and beside["reference"] / beside["tenon"], 3, 4)
    yield Target("sync from 8 peers at 50 ms, 2 that do not answer, 1 that sends wrong bodies ÷ import of the file", distant and distant["file"] / distant["sync"], 0.6, 0.8)
    yield Target("received frames ÷ cipher, MAC, Snappy alone", received and min(received.values()), 0.6, 0.8)
    ratio = served and min(kind["ratio"] for kind in served.values())
    yield Target("192 headers or 128 bodies served ÷ reference", ratio, 2, 4)
    yield Target("received block to relay to 24 peers, votes received before, p99 ms", live and percentile(live["relayed"], 99), 10, 4, **less)
    yield Target("received empty block to own vote, p99 ms", live and percentile(live["voted"], 99), 25, 12, **less)
    yield Target("due time to own block, empty, p99 ms", made and percentile(made, 99), 25, 12, **less)
    yield Target("due time to own block, full, p99 ms", full and percentile(full, 99), 120, 60, **less)
    yield Target("votes verified per core and second", voted and voted["verified_a_core"], 12_000, 18_000)
    yield Target("duplicate votes dropped per second", voted and voted["dropped_a_core"], 200_000, 500_000)
    held = busy["busy"] - busy["alone"] if busy and busy["peers"] == BUSY_PEERS else None
    yield Target("memory of 50 busy peers, MiB", held, 128, 64, **less)
    cost = idles["with_peers"] - idles["alone"] if idles and idles["peers"] == IDLE_PEERS else None
    yield Target("processor time for 25 idle peers, % of a core", cost, 2, 1, **less)
    later = synced and synced["rpc_syncing"] is not None
    yield Target("RPC p99 while syncing, minus idle, ms", synced["rpc_syncing"] - synced["rpc_quiet"] if later else None, 5, 2, **less)


def arguments(given=None):
    """The options; `given` replaces the command line's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of each sync; the median counts")
    parser.add_argument("--blocks", type=int, default=120, help="that are watched: own, and of others")
    parser.add_argument("--idle-seconds", type=float, default=60, help="with idle peers, and without")
    parser.add_argument("--busy-seconds", type=float, default=20, help="with busy peers")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args(given)


if __name__ == "__main__":
    print_measurements(measure, report, targets, arguments())
