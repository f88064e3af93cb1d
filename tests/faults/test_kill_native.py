"""kill -9 and unwinding on native chains, especially around epoch switches and the change from engine v1 to v2: the
restarted node has the roots that the reference recorded, and the import continues to the recorded head.

TENON_KILLS: kills per chain (default 8). TENON_SEED: the seed, printed at the start, to replay a run.
"""

import subprocess
import time

import pytest
import rlp

from figures import tell
from kills import dice, kills
from native_chains import Recorded, head, items
from tenon_node import BINARY, Node, RpcError, folder, run

KILLS = kills(8)
# Blocks near which something changes: gap blocks, checkpoints of v1, the switch of the engines, epoch switches of v2.
SWITCHES = {
    "local": [30, 60, 120, 168, 348, 580],
    "staged": [450, 900, 901],
    "v1switch": [450, 900, 1350, 1800, 1801, 2700],
}
# Blocks that are imported in one group, so that no block waits for the next.
TOGETHER = 32


def importing(recorded, datadir, source):
    command = [str(BINARY), "import", "--genesis", str(recorded.genesis), "--datadir", str(datadir), str(source)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def stand_at(recorded, datadir, number):
    """Brings a data folder to this block: forward by an import, back by `debug_setHead`."""
    if not (datadir / "db" / "CURRENT").exists() or head(datadir)["number"] < number:
        part = datadir.parent / "part.rlp"
        part.write_bytes(b"".join(recorded.blocks[: number + 1]))
        run("import", "--genesis", recorded.genesis, "--datadir", datadir, part)
    elif head(datadir)["number"] > number:
        with Node("run", "--http.api", "eth,debug", "--auth.namespaces", "", datadir=datadir) as node:
            node.call("debug_setHead", hex(number))
            assert node.stop() == 0
    assert head(datadir)["hash"] == recorded.lines[number]["hash"]


@pytest.mark.parametrize("name", SWITCHES)
def test_a_native_import_killed_around_a_switch_is_at_a_recorded_block_and_continues(name, dice):
    with folder() as path:
        recorded, datadir, kills = Recorded(name, path), path / "data", []
        for aim in sorted(dice.choice(SWITCHES[name]) for _ in range(KILLS)):
            # From a few blocks before the switch to some beyond it, so that the kill hits before, on or after it.
            start = max(aim - dice.randrange(1, TOGETHER), 1)
            stand_at(recorded, datadir, start)
            end = min(aim + dice.randrange(1, TOGETHER) + TOGETHER, recorded.last)
            process = importing(recorded, datadir, "-")
            try:
                process.stdin.write(b"".join(recorded.blocks[1 : end + 1]))
                process.stdin.flush()
            except BrokenPipeError:
                pass
            time.sleep(dice.uniform(0, 1.5))
            process.kill()
            process.wait()
            # Checks header links, bodies, receipts and the whole state at the head.
            run("db", "verify", "--datadir", datadir)
            found = head(datadir)
            kills.append((aim, start, found["number"]))
            assert start <= found["number"] <= end and found["hash"] == recorded.lines[found["number"]]["hash"]
        run("import", "--genesis", recorded.genesis, "--datadir", datadir, recorded.file)
        run("db", "verify", "--datadir", datadir)
        assert head(datadir)["hash"] == recorded.lines[recorded.last]["hash"]
        print(f"(switch, begun at, found at): {kills}")
        tell("kill", f"an import of the native chain {name}", KILLS, "around its switches; 0 partial, 0 wrong; continued to the recorded head",
                     "0, 0")


@pytest.mark.parametrize("name", SWITCHES)
def test_a_native_chain_can_be_unwound_across_its_switches_and_continued(name):
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
        # In two parts with separate processes, so that the second lacks the caches of the first.
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


# For the development network: rounds per epoch, and number of blocks whose state is kept, which is the minimum for a
# chain with this gap. The gap block is half an epoch before the epoch switch.
EPOCH, HISTORY = 6, 4
DEVELOPMENT = ["dev", "--profile", "native", "--epoch", EPOCH, "--block-time", "1s", "--gcmode", "pruned"]


def newest(node):
    return int(node.call("eth_blockNumber"), 16)


def heights_to(node, goal):
    """Polls the newest height until it is reached. A stalled chain fails."""
    deadline = time.monotonic() + 60
    while (height := newest(node)) < goal:
        assert time.monotonic() < deadline, f"the chain stands at {height}"
        yield height
        time.sleep(0.05)


def test_an_unwind_to_a_pruned_state_changes_nothing(tmp_path):
    recorded, datadir = Recorded("local", tmp_path), tmp_path / "data"
    pruned = ["--gcmode", "pruned", "--history.state", "452"]
    run("import", "--genesis", recorded.genesis, *pruned, "--datadir", datadir, recorded.file)
    # The chain is unwound in steps of 256 blocks, of which the first is possible.
    done = run("db", "unwind", "200", *pruned, "--datadir", datadir, check=False)
    assert done.returncode != 0 and "state of block 200 has been pruned" in done.stderr, done.stderr
    with Node("run", *pruned, "--http.api", "eth,debug", "--auth.namespaces", "", datadir=datadir) as node:
        with pytest.raises(RpcError, match="has been pruned"):
            node.call("debug_setHead", "0xc8")
        assert int(node.call("eth_blockNumber"), 16) == recorded.last


def test_a_native_development_network_killed_around_an_epoch_switch_continues_and_signs_nothing_twice(dice):
    with folder() as path:
        datadir, known, aims, height = path / "data", {}, [], 0
        arguments = [*DEVELOPMENT, "--history.state", HISTORY]
        for _ in range(min(KILLS, 5)):
            # The gap block, the blocks between it and the epoch switch, the epoch switch, and the next one.
            aim = max(height + 1, height // EPOCH * EPOCH + EPOCH // 2) + dice.randrange(EPOCH // 2 + 2)
            aims.append(aim)
            with Node(*map(str, arguments), datadir=datadir) as node:
                for number, block_hash in known.items():
                    assert node.call("eth_getBlockByNumber", hex(number), False)["hash"] == block_hash
                for height in heights_to(node, aim):
                    for number in range(max(known, default=0) + 1, height + 1):
                        known[number] = node.call("eth_getBlockByNumber", hex(number), False)["hash"]
                time.sleep(dice.uniform(0, 1))
                node.kill()
            run("db", "verify", "--datadir", datadir)
        with Node(*map(str, arguments), datadir=datadir) as node:
            list(heights_to(node, newest(node) + EPOCH + 1))
            assert node.stop() == 0
        run("export", "--datadir", datadir, path / "chain.rlp")
        blocks = [rlp.decode(block)[0] for block in items((path / "chain.rlp").read_bytes())]
        rounds = [int.from_bytes(rlp.decode(header[12][1:])[0], "big") for header in blocks if header[12][:1] == b"\x02"]
        assert rounds == list(range(1, len(rounds) + 1)), "a round was used twice, or left out"
        # Another node verifies the chain by all rules, from the blocks alone. Restarts made some of the blocks early.
        time.sleep(max(0, int.from_bytes(blocks[-1][11], "big") + 1 - time.time()))
        run("import", "--genesis", datadir / "genesis.json", "--datadir", path / "other", path / "chain.rlp")
        assert head(path / "other") == head(datadir)
        tell("kill", "a native development network", len(aims), f"after blocks {aims}; {len(known)} blocks shown, lost 0; "
                     f"{len(rounds)} rounds, used twice 0", "0, 0")
