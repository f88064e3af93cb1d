"""The parts of benches/network.py that compare with the reference client: `TENON_REFERENCE=PATH` names its binary."""

import contextlib
import pathlib
import sys
import tempfile
import time

import importing
import servers
from network_nodes import HEAD, bench, height, imported, median, node, source_of, target, unpacked, wait_for_height

sys.path.insert(0, str(servers.ROOT / "tests"))

from reference_node import REFERENCE, Reference  # noqa: E402

ALONE = ("--nodiscover", "--bootnodes", "", "--maxpeers", "60")
KINDS = ("headers", "bodies")


@contextlib.contextmanager
def running(genesis):
    """A running reference node. It calls itself over its Unix socket, whose path must be short."""
    with tempfile.TemporaryDirectory(prefix="reference-", ignore_cleanup_errors=True) as folder:
        path = pathlib.Path(folder) / "data"
        path.mkdir()
        reference = Reference(path, genesis, *ALONE)
        try:
            yield reference
        finally:
            reference.end()


@contextlib.contextmanager
def running_with(source):
    """A running reference node that has imported the chain."""
    with running(source[0]) as reference, tempfile.TemporaryDirectory(prefix="tenon-bench-") as folder:
        for path in importing.files_of_blocks(pathlib.Path(folder), source[1]):
            reference.call("admin_importChain", str(path))
        yield reference


def seconds_to_sync(fresh, enode):
    began = time.monotonic()
    fresh.call("admin_addPeer", enode)
    wait_for_height(fresh, HEAD)
    return time.monotonic() - began


def beside(options, folder):
    """Seconds to sync `load` from a node of the reference, by this program and by the reference, alternately."""
    if not REFERENCE:
        return None
    source, ours, theirs = source_of(folder), [], []
    with running_with(source) as full:
        for number in range(options.rounds):
            with node(folder / f"beside-{number}", source[0]) as fresh:
                ours.append(seconds_to_sync(fresh, full.enode()))
            with running(source[0]) as fresh:
                theirs.append(seconds_to_sync(fresh, full.enode()))
    return {"tenon": median(ours), "reference": median(theirs)}


def serving(options, folder):
    """Answers by kind per second of the node's processor time: of this node, of the reference client, and the median ratio of
    alternating rounds. Answers per second by the clock would say less, because the peers need as much processor time as the
    nodes and share the cores with them. 128 bodies of the chain `staged` fit into an answer, and its 1,149 blocks do not fit
    into the reference client's caches, as those of a real network do not."""
    if not REFERENCE:
        return None
    genesis = servers.ROOT / "tests" / "data" / "chain" / "native-genesis-staged.json.gz"
    source = unpacked(folder, genesis, importing.CHAINS / "staged.rlp.gz")
    imported(folder / "full", source)
    rounds = []
    with node(folder / "full", source[0]) as server, running_with(source) as reference:
        if height(server) != height(reference):
            raise SystemExit("the nodes have not the same blocks")
        for _ in range(options.rounds):
            rounds.append([bench("serving", *target(each), "--process", each.process.pid) for each in (server, reference)])
    return {
        kind: compared([[run[kind]["a_processor_second"] for run in each] for each in rounds])
        | {"on_the_clock": compared([[run[kind]["a_second"] for run in each] for each in rounds])}
        for kind in KINDS
    }


def compared(rates):
    ratio = median([ours / theirs for ours, theirs in rates])
    return {"tenon": median([ours for ours, _ in rates]), "reference": median([theirs for _, theirs in rates]), "ratio": ratio}
