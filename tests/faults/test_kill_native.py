"""kill -9 and unwinding on native chains, around epoch switches and the change from engine v1 to v2 especially: what a
restart finds has the roots that the reference recorded, and the import goes on to the recorded head.

TENON_KILLS: how often a chain (default 8). TENON_SEED: the seed, printed at the start, to replay a run.
"""

import gzip
import json
import os
import random
import subprocess
import time

import pytest

from tenon_node import BINARY, DATA, Node, folder, run

KILLS = int(os.environ.get("TENON_KILLS", "8"))
SEED = int(os.environ.get("TENON_SEED", str(random.SystemRandom().randrange(2**32))))
# Around which blocks something changes: gap blocks, checkpoints of v1, the switch of the engines, epoch switches of v2.
SWITCHES = {
    "local": [30, 60, 120, 168, 348, 580],
    "staged": [450, 900, 901],
    "v1switch": [450, 900, 1350, 1800, 1801, 2700],
}
# Blocks that are handed over together, so that none waits in the import for the next.
TOGETHER = 32


class Recorded:
    """A chain with what the reference says about its blocks."""

    def __init__(self, name, path):
        chains = DATA / "native" / "chains"
        self.genesis = path / "genesis.json"
        self.genesis.write_bytes(gzip.decompress((DATA / "chain" / f"native-genesis-{name}.json.gz").read_bytes()))
        self.file = path / "chain.rlp"
        self.file.write_bytes(gzip.decompress((chains / f"{name}.rlp.gz").read_bytes()))
        lines = gzip.decompress((chains / f"{name}.blocks.jsonl.gz").read_bytes()).decode().splitlines()
        self.lines = {line["number"]: line for line in map(json.loads, lines)}
        self.blocks = list(items(self.file.read_bytes()))
        self.last = len(self.blocks) - 1


def items(data):
    """The RLP lists that stand one after the other."""
    position = 0
    while position < len(data):
        prefix = data[position]
        size = 0 if prefix < 0xF8 else prefix - 0xF7
        length = prefix - 0xC0 if not size else int.from_bytes(data[position + 1 : position + 1 + size], "big")
        end = position + 1 + size + length
        yield data[position:end]
        position = end


def head(datadir):
    statistics = json.loads(run("db", "stats", "--json", "--datadir", datadir).stdout)
    return statistics["head"]


def importing(recorded, datadir, source):
    command = [str(BINARY), "import", "--genesis", str(recorded.genesis), "--datadir", str(datadir), str(source)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def dice(request):
    print(f"\n{request.node.name}: TENON_SEED={SEED} TENON_KILLS={KILLS}")
    return random.Random(SEED)


@pytest.mark.parametrize("name", SWITCHES)
def test_a_native_import_killed_around_a_switch_stands_at_a_recorded_block_and_goes_on(name, dice):
    with folder() as path:
        recorded, datadir, heights = Recorded(name, path), path / "data", []
        aims = sorted(dice.choice(SWITCHES[name]) for _ in range(KILLS))
        for aim in aims:
            # Up to some blocks beyond the switch, so that the kill falls before it, on it or after it.
            end = min(aim + dice.randrange(1, TOGETHER), recorded.last) + TOGETHER
            process = importing(recorded, datadir, "-")
            try:
                process.stdin.write(b"".join(recorded.blocks[1 : end + 1]))
                process.stdin.flush()
            except BrokenPipeError:
                pass
            time.sleep(dice.uniform(0, 1.5))
            process.kill()
            process.wait()
            if not (datadir / "db" / "CURRENT").exists():
                heights.append(None)
                continue
            # Walks header links, bodies, receipts and the whole state at the head.
            run("db", "verify", "--datadir", datadir)
            found = head(datadir)
            heights.append(found["number"])
            assert found["hash"] == recorded.lines[found["number"]]["hash"]
        run("import", "--genesis", recorded.genesis, "--datadir", datadir, recorded.file)
        run("db", "verify", "--datadir", datadir)
        assert head(datadir)["hash"] == recorded.lines[recorded.last]["hash"]
        print(f"{name}: {KILLS} kills around {aims}, found at {heights}; 0 half blocks, 0 wrong roots")
        assert any(height and height < recorded.last for height in heights), "no kill hit a running import"


@pytest.mark.parametrize("name", SWITCHES)
def test_a_native_chain_goes_back_over_its_switches_and_on_again(name):
    with folder() as path:
        recorded, datadir = Recorded(name, path), path / "data"
        run("import", "--genesis", recorded.genesis, "--datadir", datadir, recorded.file)
        heights = sorted({height + step for height in SWITCHES[name] for step in (-1, 0, 1)}, reverse=True)
        with Node("run", "--http.api", "eth,debug", "--auth.namespaces", "", datadir=datadir) as node:
            before = node.call("eth_getBlockByNumber", "finalized", False)["hash"]
            for height in heights:
                node.call("debug_setHead", hex(height))
                block = node.call("eth_getBlockByNumber", "latest", False)
                assert (block["hash"], block["stateRoot"]) == tuple(recorded.lines[height][key] for key in ("hash", "stateRoot"))
            assert node.stop() == 0
        run("db", "verify", "--datadir", datadir)
        # In two parts, with a new process in between, so that the second has forgotten what the first knew.
        part = path / "part.rlp"
        for height in sorted(heights):
            part.write_bytes(b"".join(recorded.blocks[: height + 1]))
            run("import", "--datadir", datadir, part)
            assert head(datadir)["hash"] == recorded.lines[height]["hash"]
        run("import", "--datadir", datadir, recorded.file)
        run("db", "verify", "--datadir", datadir)
        with Node("run", "--http.api", "eth", datadir=datadir) as node:
            assert node.call("eth_getBlockByNumber", "latest", False)["hash"] == recorded.lines[recorded.last]["hash"]
            assert node.call("eth_getBlockByNumber", "finalized", False)["hash"] == before
        print(f"{name}: back to {heights} and on, every root as recorded")
