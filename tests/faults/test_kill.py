"""kill -9 at random instants: after each restart the node stands at a whole block with equal roots, and goes on.

TENON_KILLS: how often (default 8; the full run is 50). TENON_SEED: the seed, printed at the start, to replay a run.
"""

import json
import os
import random
import re
import shutil
import subprocess
import threading
import time

import pytest

from tenon_node import BINARY, DATA, Node, RpcError, folder, run

KILLS = int(os.environ.get("TENON_KILLS", "8"))
SEED = int(os.environ.get("TENON_SEED", str(random.SystemRandom().randrange(2**32))))
OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


@pytest.fixture
def dice(request):
    print(f"\n{request.node.name}: TENON_SEED={SEED} TENON_KILLS={KILLS}")
    return random.Random(SEED)


def verify(datadir):
    """`tenon db verify` walks every header link, body and receipt root, and the whole state at the head."""
    return run("db", "verify", "--datadir", datadir)


def head(datadir):
    statistics = json.loads(run("db", "stats", "--json", "--datadir", datadir).stdout)
    return statistics["head"]["number"]


def make_chain(path, blocks=300):
    """A chain long enough to be killed in the middle: transfers and a busy contract, made by the development network."""
    token = json.loads((DATA / "contracts" / "Token.json").read_text())["bytecode"] + f"{10**12:064x}"
    with Node("dev", datadir=path / "source") as node:
        sender = node.call("eth_accounts")[0]
        sent = node.call("eth_sendTransaction", {"from": sender, "data": token, "gas": hex(2_000_000)})
        while (receipt := node.call("eth_getTransactionReceipt", sent)) is None:
            time.sleep(0.01)
        for number in range(blocks):
            data = "0xa9059cbb" + f"{number + 1:064x}" + f"{number:064x}"
            node.call("eth_sendTransaction", {"from": sender, "to": receipt["contractAddress"], "data": data, "gas": hex(100_000)})
        while node.call("txpool_status")["pending"] != "0x0":
            time.sleep(0.01)
        head = node.call("eth_getBlockByNumber", "latest", False)
        assert node.stop() == 0
    run("export", "--datadir", path / "source", path / "chain.rlp")
    shutil.copy(path / "source" / "genesis.json", path)
    return int(head["number"], 16), head["hash"]


def test_an_import_killed_at_any_instant_stands_at_a_whole_block_and_goes_on(dice):
    with folder() as path:
        length, head_hash = make_chain(path)
        command = ["import", "--genesis", path / "genesis.json", "--datadir", path / "data", path / "chain.rlp"]
        begun = time.monotonic()
        run(*command)
        whole = time.monotonic() - begun

        shutil.rmtree(path / "data")
        heights = []
        for _ in range(KILLS):
            if heights and heights[-1] == length:
                shutil.rmtree(path / "data")
            importing = subprocess.Popen([str(BINARY), *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(dice.uniform(0, whole))
            importing.kill()
            importing.wait()
            if not (path / "data" / "db" / "CURRENT").exists():
                heights.append(None)
                continue
            verify(path / "data")
            heights.append(head(path / "data"))
        run(*command)
        verify(path / "data")
        with Node("run", datadir=path / "data") as node:
            assert node.call("eth_getBlockByNumber", "latest", False)["hash"] == head_hash
        in_the_middle = sum(bool(height) and height < length for height in heights)
        print(f"import of {length} blocks: {KILLS} kills within {whole:.2f} s, {in_the_middle} in the middle of the chain; "
              f"heights after restart: {heights}; 0 half blocks, 0 wrong roots")
        assert in_the_middle, "no kill hit a running import: the test has shown nothing"


class Traffic(threading.Thread):
    """Sends transfers through the node's own accounts until the node dies; remembers what was acknowledged."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node = node
        self.canonical = {}

    def run(self):
        try:
            sender = self.node.call("eth_accounts")[0]
            while True:
                self.node.call("eth_sendTransaction", {"from": sender, "to": OTHER, "value": "0x1", "gas": "0x5208"})
                block = self.node.call("eth_getBlockByNumber", "latest", False)
                self.canonical[int(block["number"], 16)] = block["hash"]
        except (RpcError, OSError, ValueError, AssertionError):
            return
        except Exception as error:  # the connection of a killed node fails in many ways
            if not re.search("Http|Remote|Incomplete|Bad", type(error).__name__):
                raise


def test_a_loaded_development_network_loses_no_block_that_it_has_shown(dice):
    with folder() as path:
        datadir, known, lost = path / "data", {}, 0
        for kill in range(KILLS + 1):
            with Node("dev", datadir=datadir) as node:
                for number, block_hash in known.items():
                    block = node.call("eth_getBlockByNumber", hex(number), False)
                    lost += block is None or block["hash"] != block_hash
                if kill == KILLS:
                    assert node.stop() == 0
                    break
                traffic = Traffic(node)
                traffic.start()
                time.sleep(dice.uniform(0.05, 1.0))
                node.process.kill()
                traffic.join(30)
                known.update(traffic.canonical)
            verify(datadir)
        print(f"development network: {KILLS} kills, {len(known)} acknowledged blocks, {lost} lost, 0 wrong roots")
        assert lost == 0 and len(known) > KILLS
