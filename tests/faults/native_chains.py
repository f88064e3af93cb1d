"""The recorded native chains for the fault suites."""

import gzip
import json

from tenon_node import DATA, run


class Recorded:
    """A chain with the reference's data on its blocks."""

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
    """Splits concatenated RLP lists."""
    position = 0
    while position < len(data):
        prefix = data[position]
        size = 0 if prefix < 0xF8 else prefix - 0xF7
        length = prefix - 0xC0 if not size else int.from_bytes(data[position + 1 : position + 1 + size], "big")
        end = position + 1 + size + length
        yield data[position:end]
        position = end


def head(datadir):
    """Number and hash of a data folder's newest block."""
    return json.loads(run("db", "stats", "--json", "--datadir", datadir).stdout)["head"]
