"""kill -9 during reorganisations of 1 to 100 blocks: the head is the old or the new one, the roots are equal, and readers
never see an intermediate head.

TENON_KILLS: kills (default 6; the full run is 300). TENON_SEED: the seed, printed at the start, to replay a run.
"""

import contextlib
import json
import shutil
import threading
import time


import wire
from figures import tell
from kills import dice, kills
from native_chains import items
from test_kill import Client, verify
from tenon_node import Node, folder, run

KILLS = kills(6)
MAX_DEPTH = 100
DEPTHS = 4
"""Number of lengths of the old branch in a run, besides 1 and 100: each has a folder, which every kill copies."""
MAX_MORE = 60
"""Additional kills until some have hit a reorganisation."""
OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


class Branch:
    """Blocks that a development network made on a genesis."""

    def __init__(self, path, genesis, value):
        datadir = path / f"branch-{value}"
        if genesis:
            datadir.mkdir()
            shutil.copy(genesis, datadir / "genesis.json")
        with Node("dev", datadir=datadir) as node:
            sender = node.call("eth_accounts")[0]
            for _ in range(MAX_DEPTH + 1):
                node.call("eth_sendTransaction", {"from": sender, "to": OTHER, "value": hex(value), "gas": "0x5208"})
                while node.call("txpool_status")["pending"] != "0x0":
                    time.sleep(0.002)
            assert node.stop() == 0
        self.genesis = datadir / "genesis.json"
        file = path / f"branch-{value}.rlp"
        run("export", "--datadir", datadir, file, "1", str(MAX_DEPTH + 1))
        self.blocks = list(items(file.read_bytes()))
        assert len(self.blocks) == MAX_DEPTH + 1

    def write(self, path, first, last):
        """The blocks of these heights as a file."""
        path.write_bytes(b"".join(self.blocks[first - 1 : last]))
        return path


def head(datadir):
    return json.loads(run("db", "stats", "--json", "--datadir", datadir).stdout)["head"]


class Prepared:
    """A folder that is one block short of a reorganisation of some blocks."""

    def __init__(self, path, old, new, depth):
        self.depth, self.path, self.tip = depth, path / f"depth-{depth}", path / f"tip-{depth}.rlp"
        first, second = old.write(path / "old.rlp", 1, depth), new.write(path / "new.rlp", 1, depth)
        run("import", "--genesis", old.genesis, "--datadir", self.path, first, second)
        self.old = head(self.path)
        assert self.old["number"] == depth
        (self.path / "files").mkdir()
        new.write(self.path / "files" / "tip.rlp", depth + 1, depth + 1)
        whole = path / "whole"
        shutil.copytree(self.path, whole)
        begun = time.monotonic()
        run("import", "--datadir", whole, whole / "files" / "tip.rlp")
        self.longest = time.monotonic() - begun
        self.new = head(whole)
        verify(whole)
        assert self.new["number"] == depth + 1
        shutil.rmtree(whole)

    def heads(self):
        return {(block["number"], block["hash"]) for block in (self.old, self.new)}


class Watching(Client):
    """Queries the head, and data on it, repeatedly."""

    def __init__(self, node):
        super().__init__(node)
        self.heads, self.counts = set(), set()

    def once(self):
        block = self.call("eth_getBlockByNumber", "latest", False)
        self.heads.add((int(block["number"], 16), block["hash"]))
        self.counts.add(int(self.call("eth_getBalance", OTHER, "latest"), 16))


class Reorganising(threading.Thread):
    """Imports the block with which the other branch becomes the better one."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.connection, self.is_acknowledged = wire.UnixSocket(node), False

    def run(self):
        with contextlib.suppress(OSError, ValueError, wire.Hung):
            self.is_acknowledged = wire.ask(self.connection, wire.request("admin_importChain", "tip.rlp")).get("result") is True


def test_a_node_killed_in_a_reorganisation_has_the_old_or_the_new_head(dice):
    with folder() as path:
        old = Branch(path, None, 1)
        new = Branch(path, old.genesis, 2)
        depths = [1, MAX_DEPTH, *(dice.randrange(2, MAX_DEPTH) for _ in range(DEPTHS))]
        prepared = [Prepared(path, old, new, depth) for depth in dict.fromkeys(depths)]

        datadir, found, acknowledged, between = path / "data", [], 0, 0
        is_enough = False
        while len(found) < KILLS or not is_enough:
            assert len(found) < KILLS + MAX_MORE, f"no kill hit a reorganisation, the test has shown nothing: {found}"
            chosen = dice.choice(prepared)
            shutil.rmtree(datadir, ignore_errors=True)
            shutil.copytree(chosen.path, datadir)
            with Node("run", datadir=datadir) as node:
                watching, reorganising = Watching(node), Reorganising(node)
                watching.start()
                reorganising.start()
                time.sleep(dice.uniform(0, chosen.longest))
                node.process.kill()
                node.process.wait()
                watching.join(30)
                reorganising.join(30)
            verify(datadir)
            stands = head(datadir)
            place = (stands["number"], stands["hash"])
            assert place in chosen.heads(), f"at {place} after a reorganisation of {chosen.depth} blocks"
            between += len(watching.heads - chosen.heads())
            # One wei per block on the old branch, two on the new one, for an account with an initial balance.
            at_start = min(watching.counts, default=0)
            spread = {count - at_start for count in watching.counts}
            gained = 2 * (chosen.depth + 1) - chosen.depth
            assert spread <= {0, gained}, f"balances {watching.counts} of a reorganisation of {chosen.depth} blocks"
            is_new = stands == chosen.new
            if reorganising.is_acknowledged:
                acknowledged += 1
                assert is_new, "the old head is back, though the new one was acknowledged"
            found.append(f"{chosen.depth}:{'new' if is_new else 'old'}")
            kinds = {entry.split(":")[1] for entry in found}
            is_enough = kinds == {"old", "new"}
            run("import", "--datadir", datadir, datadir / "files" / "tip.rlp")
            verify(datadir)
            assert head(datadir) == chosen.new
        assert between == 0
        print(f"blocks:head {' '.join(found)}")
        tell("kill", f"reorganisations of 1 to {MAX_DEPTH} blocks", len(found),
             f"{sum(entry.endswith('new') for entry in found)} at the new head, the others at the old one, {acknowledged} after the "
             f"answer; 0 partial, 0 wrong, in between 0, seen in between {between}; continued to the new head", "0, 0, 0, 0")
