"""The recorded chains in this node: import, start, query."""

import contextlib
import gzip
import json
import shutil

from tenon_node import DATA, Node, folder, run, unpacked

CHAINS = DATA / "native" / "chains"
NAMESPACES = "eth,net,web3,debug,txpool,admin,miner,XDPoS"

# The chains whose genesis is stored with the tests of the formats.
GENESIS_WITH_FORMATS = ("local", "staged", "v1switch")


def genesis_file(chain):
    if chain in GENESIS_WITH_FORMATS:
        return DATA / "chain" / f"native-genesis-{chain}.json.gz"
    return CHAINS / f"{chain.removesuffix('-backwards')}.genesis.json.gz"


def chain_files(chain):
    """The files of blocks, in the order of import."""
    names = {"reorg": ("reorg-a", "reorg-b"), "reorg-backwards": ("reorg-b", "reorg-a")}.get(chain, (chain,))
    return [CHAINS / f"{name}.rlp.gz" for name in names]


@contextlib.contextmanager
def prepared(chain, with_blocks=True):
    """A folder with the unpacked genesis, and a data folder with the chain or only its genesis."""
    with folder() as path:
        genesis = unpacked(genesis_file(chain), path / "genesis.json")
        for file in chain_files(chain) if with_blocks else ():
            blocks = unpacked(file, path / file.name.removesuffix(".gz"))
            run("import", "--genesis", genesis, "--datadir", path / "data", blocks)
            blocks.unlink()
        yield path


@contextlib.contextmanager
def node_with(path, *arguments):
    """A running node on a prepared folder; every namespace is open, as in the reference."""
    everything = ["--http.api", NAMESPACES, "--ws.api", NAMESPACES, "--auth.namespaces", ""]
    # The reference does not apply a minimum tip to transactions from RPC, and suggests none on an idle chain.
    everything += ["--txpool.pricelimit", "0"]
    with Node("run", "--genesis", path / "genesis.json", *everything, *arguments, datadir=path / "data") as node:
        yield node


@contextlib.contextmanager
def node_of(chain):
    """A running node that has imported the chain."""
    with prepared(chain) as path, node_with(path) as node:
        yield node


def copied(path, target):
    """Another data folder with the same chain, for a test that changes it."""
    shutil.copytree(path, target)
    return target


def ask(node, case):
    """Sends one recorded request and returns the answer in the recorded form."""
    if "raw" in case:
        text = node.raw(case["raw"].encode())
    else:
        request = {"jsonrpc": "2.0", "id": case["id"], "method": case["method"]}
        if "params" in case:
            request["params"] = case["params"]
        text = node.raw(json.dumps(request))
    if not text.strip():
        return {"empty": True}
    try:
        answer = json.loads(text)
    except ValueError:
        return {"text": text.strip()}
    if "raw" not in case and isinstance(answer, dict):
        answer.pop("id", None)
    return answer


def ask_all(node, cases, rules, tally):
    """Sends recorded requests, except those skipped by the rules, and counts every answer."""
    for case in cases:
        if rules.skips(case):
            tally.skip(case)
            continue
        found = ask(node, case)
        tally.add(case, found, rules.differences(case, found))


def blocks_of(file):
    """The blocks of an exported chain as separate RLP."""
    data, place = gzip.decompress(file.read_bytes()), 0
    while place < len(data):
        first = data[place]
        if first > 0xF7:
            head = first - 0xF7
            size = 1 + head + int.from_bytes(data[place + 1 : place + 1 + head], "big")
        else:
            size = 1 + first - 0xC0
        yield data[place : place + size]
        place += size
