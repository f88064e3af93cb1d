"""Replays a recorded flow: imports blocks, calls methods, collects notifications."""

import contextlib
import json
import os

from websockets.sync.client import connect

import chains


class Player:
    """One flow on one node. Ids of filters and subscriptions are random, so results can be given names, which later
    parameters refer to and which replace them in the comparison."""

    def __init__(self, node, path, blocks):
        self.node, self.path, self.blocks = node, path, blocks
        self.names, self.count, self.waiting = {}, 0, []
        self.lines = contextlib.ExitStack()
        self.socket = self.lines.enter_context(connect(node.ws_url, max_size=None))

    def close(self):
        self.lines.close()

    def import_blocks(self, step):
        start = step.get("from") or int(self.node.call("eth_blockNumber"), 16) + 1
        for number in range(start, step["to"] + 1):
            file = self.node.datadir / "files" / "block.rlp"
            file.parent.mkdir(mode=0o700, exist_ok=True)
            file.write_bytes(self.blocks[step.get("chain", 0)][number])
            assert self.node.call("admin_importChain", str(file)) is True
            os.unlink(file)

    def named(self, value, backwards=False):
        """The value with names in place of the values that they represent, or the reverse."""
        text = json.dumps(value)
        for name, known in self.names.items():
            pair = (json.dumps(known), json.dumps(name)) if backwards else (json.dumps(name), json.dumps(known))
            text = text.replace(*pair)
        return json.loads(text)

    def call(self, step):
        self.count += 1
        request = {"jsonrpc": "2.0", "id": self.count, "method": step["method"], "params": self.named(step.get("params", []))}
        if step.get("on", "http") == "http":
            answer = json.loads(self.node.raw(json.dumps(request)))
        else:
            self.socket.send(json.dumps(request))
            answer = json.loads(self.socket.recv(10))
            while "id" not in answer:
                self.waiting.append(answer)
                answer = json.loads(self.socket.recv(10))
        answer.pop("id", None)
        if "save" in step and "result" in answer:
            self.names[step["save"]] = answer["result"]
        return self.named(answer, backwards=True)

    def collect(self, step):
        """Notifications of every subscription since the last time; the wait ends once all recorded ones have
        arrived."""
        wanted = {name: len(results) for name, results in step["notifications"].items()}
        found = self.sorted_notifications()
        with contextlib.suppress(TimeoutError):
            while any(len(found.get(name, [])) < count for name, count in wanted.items()):
                self.waiting.append(json.loads(self.socket.recv(5)))
                found = self.sorted_notifications()
            # Surplus notifications would arrive now.
            while True:
                self.waiting.append(json.loads(self.socket.recv(0.1)))
        found, self.waiting = self.sorted_notifications(), []
        return found

    def sorted_notifications(self):
        by_id = {known: name for name, known in self.names.items() if isinstance(known, str)}
        found = {}
        for message in self.waiting:
            params = message.get("params", {})
            found.setdefault(by_id.get(params.get("subscription"), "?"), []).append(params.get("result"))
        return found

    def play(self, step):
        """One step: the key of its recorded outcome, and the outcome; nothing for blocks."""
        if step["do"] == "import":
            self.import_blocks(step)
            return None, None
        return ("response", self.call(step)) if step["do"] == "call" else ("notifications", self.collect(step))


def blocks_of(chain):
    return [list(chains.blocks_of(file)) for file in chains.chain_files(chain)]
