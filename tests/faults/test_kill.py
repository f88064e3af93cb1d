"""kill -9 at random instants: after each restart the head is a complete block with equal roots, and the node continues.

TENON_KILLS: kills per test (default 4; the full run is 75). TENON_SEED: the seed, printed at the start, to replay a run.
"""

import contextlib
import http.client
import json
import shutil
import subprocess
import threading
import time


import wire
from figures import tell
from kills import MAX_MORE, dice, kills
from tenon_node import BINARY, DATA, Node, RpcError, folder, run
from test_kill_native import Recorded

KILLS = kills(4)
OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


def verify(datadir):
    """`tenon db verify` checks every header link, body and receipt root, and the whole state at the head."""
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


def test_an_import_killed_at_any_instant_is_at_a_whole_block_and_continues(dice):
    with folder() as path:
        length, head_hash = make_chain(path)
        command = ["import", "--genesis", path / "genesis.json", "--datadir", path / "data", path / "chain.rlp"]
        begun = time.monotonic()
        run(*command)
        whole = time.monotonic() - begun

        shutil.rmtree(path / "data")
        heights, longest, in_the_middle = [], whole, 0
        while len(heights) < KILLS or not in_the_middle:
            assert len(heights) < KILLS + MAX_MORE, f"no kill hit a running import, the test has shown nothing: {heights}"
            if heights and heights[-1] == length:
                shutil.rmtree(path / "data")
            importing = subprocess.Popen([str(BINARY), *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            lived = dice.uniform(0, longest)
            time.sleep(lived)
            importing.kill()
            importing.wait()
            if not (path / "data" / "db" / "CURRENT").exists():
                heights.append(None)
                longest = whole
                continue
            verify(path / "data")
            heights.append(head(path / "data"))
            in_the_middle += 0 < heights[-1] < length
            # A complete run was faster than the measured one, or reached its end long before it exited.
            longest = lived if heights[-1] == length else whole
        run(*command)
        verify(path / "data")
        with Node("run", datadir=path / "data") as node:
            assert node.call("eth_getBlockByNumber", "latest", False)["hash"] == head_hash
        print(f"killed within {whole:.2f} s; heights after restart: {heights}")
        tell("kill", f"an import of {length} blocks", len(heights), f"{in_the_middle} in the middle of the chain; 0 partial, 0 wrong; "
                     "continued to the recorded head", "0, 0")


class Client(threading.Thread):
    """Sends requests to a node until it dies. Every answer before that counts."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node = node
        self.connection = http.client.HTTPConnection(node.http_url.removeprefix("http://").rstrip("/"), timeout=60)

    def call(self, method, *params):
        """Like the node's own `call`, over a connection of this thread, and without retries."""
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        self.connection.request("POST", "/", text, {"Content-Type": "application/json"})
        answer = json.loads(self.connection.getresponse().read())
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def run(self):
        try:
            while True:
                self.once()
        # The connection of a killed node fails in many ways, also in the middle of an answer.
        except (OSError, http.client.HTTPException, ValueError):
            return
        except RpcError:
            # A running node has refused a request: the test must fail.
            if self.node.process.poll() is None:
                raise


class Traffic(Client):
    """Sends transfers through the node's own accounts; records the blocks shown."""

    def __init__(self, node):
        super().__init__(node)
        self.shown = {}
        self.sender = node.call("eth_accounts")[0]

    def once(self):
        self.call("eth_sendTransaction", {"from": self.sender, "to": OTHER, "value": "0x1", "gas": "0x5208"})
        block = self.call("eth_getBlockByNumber", "latest", False)
        self.shown[int(block["number"], 16)] = block["hash"]


class Compaction(Client):
    """Compacts the whole database repeatedly."""

    def __init__(self, node):
        super().__init__(node)
        self.done, self.is_running = 0, False

    def once(self):
        self.is_running = True
        self.call("debug_chaindbCompact")
        self.is_running = False
        self.done += 1


def missing(node, shown):
    """Number of shown blocks that the node does not have at their heights."""
    requests = [
        {"jsonrpc": "2.0", "id": number, "method": "eth_getBlockByNumber", "params": [hex(number), False]} for number in shown
    ]
    found = {}
    for start in range(0, len(requests), 500):
        for answer in json.loads(node.raw(json.dumps(requests[start : start + 500]))):
            found[answer["id"]] = (answer.get("result") or {}).get("hash")
    return sum(found[number] != block_hash for number, block_hash in shown.items())


def killed_again_and_again(dice, also=lambda node: None):
    """A loaded development network that is killed this often; returns every block that it showed, and how many it
    lost."""
    with folder() as path:
        datadir, shown, lost = path / "data", {}, 0
        for kill in range(KILLS + 1):
            with Node("dev", "--http.api", "eth,debug", datadir=datadir) as node:
                lost += missing(node, shown)
                if kill == KILLS:
                    assert node.stop() == 0
                    return len(shown), lost
                traffic = Traffic(node)
                traffic.start()
                other = also(node)
                time.sleep(dice.uniform(0.02, 0.8))
                node.process.kill()
                node.process.wait()
                traffic.join(30)
                shown.update(traffic.shown)
                if other:
                    other.join(30)
            verify(datadir)


def test_a_loaded_development_network_loses_no_block_that_it_has_shown(dice):
    shown, lost = killed_again_and_again(dice)
    assert lost == 0 and shown > KILLS
    tell("kill", "a loaded development network", KILLS, f"{shown} blocks shown to its clients; 0 partial, 0 wrong, lost {lost}", "0, 0, 0")


def test_a_loaded_network_that_compacts_its_database_loses_no_block_that_it_has_shown(dice):
    compactions = []

    def compacting(node):
        compaction = Compaction(node)
        compaction.start()
        compactions.append(compaction)
        return compaction

    shown, lost = killed_again_and_again(dice, compacting)
    done, within = sum(compaction.done for compaction in compactions), sum(compaction.is_running for compaction in compactions)
    assert lost == 0 and shown > KILLS
    assert within, "no kill hit a compaction: the test has shown nothing"
    tell("kill", "such a network while it compacts", KILLS, f"{within} within a compaction, {done} compactions before; "
                 f"{shown} blocks shown; 0 partial, 0 wrong, lost {lost}", "0, 0, 0")


class Unwinding(threading.Thread):
    """Unwinds the chain once, and records whether that was acknowledged."""

    def __init__(self, node, target):
        super().__init__(daemon=True)
        self.connection, self.target, self.is_acknowledged = wire.UnixSocket(node), target, False

    def run(self):
        with contextlib.suppress(OSError, ValueError, wire.Hung):
            self.is_acknowledged = "result" in wire.ask(self.connection, wire.request("debug_setHead", hex(self.target)))


def test_a_node_killed_during_an_unwind_is_at_a_whole_block_not_below_its_target(dice):
    with folder() as path:
        recorded = Recorded("staged", path)
        length, datadir, whole = recorded.last, path / "data", path / "whole"
        run("import", "--genesis", recorded.genesis, "--datadir", whole, recorded.file)

        shutil.copytree(whole, datadir)
        with Node("run", datadir=datadir) as node:
            begun = time.monotonic()
            unwinding = Unwinding(node, 0)
            unwinding.run()
            assert unwinding.is_acknowledged and node.call("eth_blockNumber") == "0x0"
            longest = time.monotonic() - begun
            assert node.stop() == 0

        heights, acknowledged, between, lost = [], 0, 0, 0
        start = 0
        while len(heights) < KILLS or not (between or acknowledged):
            assert len(heights) < KILLS + MAX_MORE, f"no kill hit an unwinding, the test has shown nothing: {heights}"
            if start < length // 3:
                shutil.rmtree(datadir)
                shutil.copytree(whole, datadir)
                start = length
            target = dice.randrange(start // 2)
            with Node("run", datadir=datadir) as node:
                unwinding = Unwinding(node, target)
                unwinding.start()
                time.sleep(dice.uniform(0, 1.3 * longest * (start - target) / length))
                node.process.kill()
                node.process.wait()
                unwinding.join(30)
            verify(datadir)
            height = head(datadir)
            assert target <= height <= start, f"{height} after unwinding from {start} to {target}"
            if unwinding.is_acknowledged:
                acknowledged += 1
                assert height == target, f"the chain is at {height} again, though {target} was acknowledged"
            between += target < height < start
            with Node("run", datadir=datadir) as node:
                assert int(node.call("eth_blockNumber"), 16) == height
                lost += missing(node, {number: recorded.lines[number]["hash"] for number in range(height + 1)})
                assert node.stop() == 0
            heights.append(f"{start}→{height}({target})")
            start = height
        # The rest of the chain can be imported.
        run("import", "--datadir", datadir, recorded.file)
        verify(datadir)
        assert head(datadir) == length
        print(f"the whole way takes {longest:.2f} s; start→found(aim): {' '.join(heights)}")
        assert lost == 0
        tell("kill", f"unwinding up to {length} blocks", len(heights), f"{between} between start and aim, {acknowledged} after the answer; "
                     f"0 partial, 0 wrong, lost {lost}, none back that was acknowledged as taken back; imported to the end again", "0, 0, 0")
