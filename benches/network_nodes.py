"""Nodes, chains and peers that the parts of benches/network.py share."""

import contextlib
import gzip
import json
import os
import pathlib
import subprocess
import time

import importing
import servers

BENCH = pathlib.Path(os.environ.get("TENON_BENCH_NETWORK", servers.TARGET / "release" / "tenon-bench-network"))
NETWORK = ["--p2p", "--p2p.addr", "127.0.0.1", "--port", "0", "--nat", "none", "--http.api", "eth,net,web3,admin"]
NETWORK += ["--auth.namespaces", ""]
# Height of the chain `load`.
HEAD = 270


def unpacked(folder, genesis, blocks):
    """The genesis and blocks of a chain as files in a folder."""
    source = (folder / "genesis.json", folder / "chain.rlp")
    for path, packed in zip(source, (genesis, blocks)):
        path.write_bytes(gzip.decompress(packed.read_bytes()))
    return source


def source_of(folder):
    """The unpacked genesis and blocks of the chain `load`."""
    return unpacked(folder, importing.CHAINS / "load.genesis.json.gz", importing.CHAINS / "load.rlp.gz")


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


def first_blocks(source, count, path):
    """A file with the first blocks of another."""
    path.write_bytes(b"".join(list(importing.items(source.read_bytes()))[:count]))
    return path


def bench(command, *arguments, core=None):
    """The report of a command of `tenon-bench-network`."""
    started = [str(BENCH), command, *map(str, arguments)]
    started = started if core is None else servers.pinned(core, started)
    done = subprocess.run(started, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{BENCH} {command}: {done.stderr}")
    return json.loads(done.stdout)


def target(server):
    """The node to which the peers of `tenon-bench-network` connect."""
    genesis = server.call("eth_getBlockByNumber", "0x0", False)["hash"]
    # The URL that the reference client shows has no address of this machine.
    url = server.enode() if hasattr(server, "enode") else server.call("admin_nodeInfo")["enode"]
    return ["--node", url, "--network", server.call("net_version"), "--genesis", genesis]


@contextlib.contextmanager
def peers(command, server, *arguments):
    """Peers of `tenon-bench-network`, connected to the node until their input is closed."""
    command = [str(BENCH), command, *target(server), *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with ending(process):
        if process.stdout.readline().strip() != "connected":
            raise SystemExit("the peers could not connect")
        yield process


@contextlib.contextmanager
def ending(process):
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def median(values):
    return sorted(values)[len(values) // 2] if values else None


def percentile(values, percent):
    """A percentile of ascending values. With fewer than a hundred values, the 99th is the highest one."""
    return values[min(len(values) - 1, len(values) * percent // 100)] if values else None
