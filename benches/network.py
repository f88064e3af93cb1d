#!/usr/bin/env python3
"""Measures the network part: what a node costs with peers, and how fast it syncs and makes blocks, as ratios of one run.

  sync      the chain `load` from another node of this program, against the import of the file; how late RPC is meanwhile
  idle      processor time that 25 peers cost which only answer Pings
  blocks    from a block's due time to its arrival at a peer, for a network of one masternode
  votes     votes of 108 masternodes through the node's voting: verified, and dropped as duplicates
  frames    received frames up to their payloads, against cipher, MAC and Snappy alone

Rows of the table without a measurement say so. All nodes share the machine with their peers.

  benches/network.py [--rounds 3] [--blocks 100] [--parts sync,idle,blocks,votes,frames] [--json FILE]
"""

import argparse
import contextlib
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import importing
import servers
from targets import Target, report_targets

BENCH = pathlib.Path(os.environ.get("TENON_BENCH_NETWORK", servers.TARGET / "release" / "tenon-bench-network"))
PYTHON = servers.CACHE / "python" / "bin" / "python"
PEERS = pathlib.Path(__file__).resolve().parent / "network_peers.py"
NETWORK = ["--p2p", "--p2p.addr", "127.0.0.1", "--port", "0", "--nat", "none", "--http.api", "eth,net,web3,admin"]
NETWORK += ["--auth.namespaces", ""]
NETWORK_ID, HEAD, IDLE_PEERS = 5151, 270, 25
BALANCE = {"jsonrpc": "2.0", "id": 1, "method": "eth_getBalance", "params": ["0x" + "11" * 20, "latest"]}
# Share of the expected length of a sync in which RPC is asked, so that the sync does not end meanwhile.
ASKED_SHARE = 0.6


def source_of(folder):
    """The unpacked genesis and blocks of the chain `load`."""
    source = (folder / "genesis.json", folder / "chain.rlp")
    for path, name in zip(source, ("load.genesis.json.gz", "load.rlp.gz")):
        path.write_bytes(gzip.decompress((importing.CHAINS / name).read_bytes()))
    return source


def node(datadir, genesis, *arguments):
    return servers.tenon(datadir, "--genesis", str(genesis), *NETWORK, *arguments, core=None, command="run")


def height(server):
    return int(server.call("eth_blockNumber"), 16)


def wait_for_height(server, wanted, seconds=300):
    deadline = time.monotonic() + seconds
    while height(server) < wanted:
        if time.monotonic() > deadline:
            raise SystemExit(f"the node is still at block {height(server)} of {wanted}")
        time.sleep(0.005)


def imported(datadir, source):
    """A data folder with the chain."""
    command = [str(servers.TENON), "import", "--genesis", str(source[0]), "--datadir", str(datadir), str(source[1])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")


def sync(options, folder):
    """Alternately imports of the file, and syncs by new nodes from one with the chain; a sync with RPC beside is not timed."""
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
    middle = lambda values: sorted(values)[len(values) // 2] if values else None
    return {"file": middle(files), "sync": middle(syncs), "rpc_syncing": middle(late), "rpc_quiet": middle(quiet)}


def sync_once(datadir, genesis, address):
    with node(datadir, genesis) as fresh:
        began = time.monotonic()
        fresh.call("admin_addPeer", address)
        wait_for_height(fresh, HEAD)
        return time.monotonic() - began


def asked_while_syncing(datadir, genesis, address, seconds):
    """The 99th percentile of a read's milliseconds during a sync, and after it. The first is `None` if the sync had not
    begun, or was over, when the reads were."""
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


def scripted(command, server, number):
    genesis = server.call("eth_getBlockByNumber", "0x0", False)["hash"]
    enode = server.call("admin_nodeInfo")["enode"]
    arguments = [str(PYTHON), str(PEERS), command, enode, str(NETWORK_ID), genesis, str(number)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextlib.contextmanager
def ending(process):
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def idle(options, folder):
    """Percent of a core that peers cost which only answer Pings, beyond a node without peers."""
    with node(folder / "idle", source_of(folder)[0]) as server:
        alone = share(server, options.idle_seconds)
        with ending(scripted("idle", server, IDLE_PEERS)) as peers:
            if peers.stdout.readline().strip() != "connected":
                raise SystemExit("the peers could not connect")
            server.settle()
            with_peers = share(server, options.idle_seconds)
            left = int(peers.communicate("", timeout=60)[0])
    # A peer that was cut costs nothing.
    return {"alone": alone, "with_peers": with_peers, "peers": left}


def share(server, seconds):
    before = server.cpu_seconds()
    time.sleep(seconds)
    return 100 * (server.cpu_seconds() - before) / seconds


def blocks(options, folder):
    """Milliseconds from the due time of a node's own empty blocks to their arrival at a peer, ascending."""
    accounts = json.loads(gzip.decompress((importing.CHAINS / "load.keys.json.gz").read_bytes()))["accounts"]
    key = folder / "key"
    key.write_text(next(account["privateKey"] for account in accounts if account["role"] == "genesis masternode"))
    key.chmod(0o600)
    with node(folder / "maker", source_of(folder)[0], "--masternode.key", str(key)) as server:
        # The key has no record: the node listens first.
        wait_for_height(server, 2)
        with ending(scripted("watch", server, options.blocks)) as peer:
            found = json.loads(peer.communicate("", timeout=60 + 5 * options.blocks)[0])
    # A signing transaction comes with every fifteenth block.
    return sorted(block["milliseconds"] for block in found if block["transactions"] == 0)


def bench(command, *arguments):
    """The report of a command of `tenon-bench-network`."""
    done = subprocess.run([str(BENCH), command, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{BENCH} {command}: {done.stderr}")
    return json.loads(done.stdout)


def votes(options, _):
    """Votes in a second of processor time: the median of the rounds."""
    runs = [bench("votes") for _ in range(options.rounds)]
    return {name: importing.middle(runs, name)[name] for name in ("verified_a_core", "dropped_a_core")}


def frames(_, folder):
    """By kind of message: cipher, MAC and Snappy alone, of the time to receive a frame."""
    return {kind: found["ratio"] for kind, found in bench("frames", "--chain", source_of(folder)[1]).items()}


PARTS = {"sync": sync, "idle": idle, "blocks": blocks, "votes": votes, "frames": frames}


def measure(options):
    found = {}
    for part in options.parts:
        with tempfile.TemporaryDirectory(prefix="tenon-bench-", ignore_cleanup_errors=True) as folder:
            found[part] = PARTS[part](options, pathlib.Path(folder))
    return found


def report(found):
    return "network, as measured:\n\n" + json.dumps({part: summary(value) for part, value in found.items()}, indent=2)


def summary(value):
    if isinstance(value, list):
        return {"samples": len(value), "median": percentile(value, 50), "p99": percentile(value, 99), "most": value[-1]}
    return value


def percentile(values, percent):
    """Of ascending values. With fewer than a hundred, the 99th percentile is the highest."""
    return values[min(len(values) - 1, len(values) * percent // 100)] if values else None


def targets(found):
    """Rows of the table of targets, in its order; those without a figure are not measured."""
    synced, idles, made = found.get("sync"), found.get("idle"), found.get("blocks")
    voted, received = found.get("votes"), found.get("frames")
    less = {"is_less_better": True}
    yield Target("sync of `load` from a node of this program, of file import", synced and synced["file"] / synced["sync"], 0.85, 0.95)
    yield Target("sync of `load` from the reference, of the reference's", None, 3, 4)
    yield Target("sync from 8 peers at 50 ms, 2 stalling, 1 lying, of file import", None, 0.6, 0.8)
    yield Target("frames in, of cipher, MAC, Snappy alone", received and min(received.values()), 0.6, 0.8)
    yield Target("192 headers or 128 bodies served, of the reference's rate", None, 2, 4)
    yield Target("block in to written to 24 peers, votes heard before, p99 ms", None, 10, 4, **less)
    yield Target("block in to own vote out, empty block, p99 ms", None, 25, 12, **less)
    yield Target("due to own block out, empty, p99 ms", made and percentile(made, 99), 25, 12, **less)
    yield Target("due to own block out, full, p99 ms", None, 120, 60, **less)
    yield Target("votes verified a core, a second", voted and voted["verified_a_core"], 12_000, 18_000)
    yield Target("duplicate votes dropped a second", voted and voted["dropped_a_core"], 200_000, 500_000)
    yield Target("memory of 50 busy peers, MiB", None, 128, 64, **less)
    cost = idles["with_peers"] - idles["alone"] if idles and idles["peers"] == IDLE_PEERS else None
    yield Target("processor for 25 idle peers, % of a core", cost, 2, 1, **less)
    later = synced and synced["rpc_syncing"] is not None
    yield Target("RPC p99 while syncing beyond quiet, ms", synced["rpc_syncing"] - synced["rpc_quiet"] if later else None, 5, 2, **less)


def arguments(given=None):
    """The options; `given` replaces the command line's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="of each sync; the median counts")
    parser.add_argument("--blocks", type=int, default=120, help="own blocks that are watched")
    parser.add_argument("--idle-seconds", type=float, default=60, help="with idle peers, and without")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args(given)


def main():
    options = arguments()
    found = measure(options)
    print(report(found))
    report_targets(list(targets(found)))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
