"""The parts of benches/network.py about a node near the head: blocks of other nodes, and its own."""

import gzip
import json
import subprocess
import threading
import time

import importing
from network_nodes import BENCH, bench, ending, first_blocks, imported, node, source_of, target, wait_for_height

# Keccak-256 of "masternode 107": the last masternode of the chains of `tenon-bench-import mainnet make`, whose signature is
# not among the 73 of their certificates. Key and address.
LAST_MASTERNODE = "a15e8319e80a29cdc8d3b98a5fc574aa1d38e275b643aab47658193a767c05e1"
LAST_ADDRESS = "0x0953aBD82939dfa554DbB976d5ba5BeA874F09c5"
MASTERNODES, SIGNATURES, MADE_BEFORE = 108, 73, 200
# Blocks of `load` whose transactions wait in the pool before the measurement, so that every block is full.
FILLED_BEFORE = 12
# Calls in a batch: a tenth of the node's limit.
BATCH = 100


def with_key(path, key):
    path.write_text(key)
    path.chmod(0o600)
    return ["--masternode.key", str(path)]


def live(options, folder):
    """Milliseconds, ascending, from sending an empty block until 24 peers have it, and until the node's own vote arrives. The
    network has 108 masternodes, whose votes for the parent the node has verified before."""
    size = ["--accounts", 1_000, "--masternodes", MASTERNODES, "--signatures", SIGNATURES, "--transactions", 0]
    command = [importing.BENCH, "mainnet", "make", "--folder", folder, "--genesis-file", *size]
    command += ["--blocks", MADE_BEFORE + options.blocks]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    genesis, chain = folder / "genesis-full.json", folder / "chain.rlp"
    imported(folder / "live", (genesis, first_blocks(chain, MADE_BEFORE, folder / "short.rlp")))
    with node(folder / "live", genesis, *with_key(folder / "key", LAST_MASTERNODE)) as server:
        time.sleep(listening_seconds(genesis))
        plan = ["--chain", chain, "--from", MADE_BEFORE, "--blocks", options.blocks, "--masternode", LAST_ADDRESS]
        return bench("live", *target(server), *plan)


def listening_seconds(genesis):
    """Seconds until the node signs: a masternode without a voting record only listens for two timeout periods."""
    rules = json.loads(genesis.read_text())["config"]["XDPoS"]["v2"]["allConfigs"]["0"]
    return 2 * rules["timeoutPeriod"] + 2


def maker(folder):
    """A node that makes the blocks of the network of `load`, as its only masternode."""
    accounts = json.loads(gzip.decompress((importing.CHAINS / "load.keys.json.gz").read_bytes()))["accounts"]
    key = next(account["privateKey"] for account in accounts if account["role"] == "genesis masternode")
    return node(folder / "maker", source_of(folder)[0], *with_key(folder / "key", key))


def watched(process, is_counted):
    """Milliseconds from the due time of blocks to their arrival at a peer, ascending."""
    answer = process.communicate()[0]
    if process.returncode:
        raise SystemExit(f"the watching peer ended with {process.returncode}")
    found = json.loads(answer)
    return sorted(block["milliseconds"] for block in found if is_counted(block["transactions"]))


def watch(server, blocks):
    command = [str(BENCH), "watch", *target(server), "--blocks", str(blocks)]
    return ending(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))


def blocks(options, folder):
    """The node's own empty blocks."""
    with maker(folder) as server:
        # The key has no record: the node listens first.
        wait_for_height(server, 2)
        with watch(server, options.blocks) as process:
            # Every fifteenth block is followed by a signing transaction.
            return watched(process, lambda transactions: transactions == 0)


def full(options, folder):
    """The node's own blocks with the transactions of `load`, 200 to 600 in each. RPC sends those of one block per second."""
    with maker(folder) as server:
        wait_for_height(server, 2)
        batches = iter(bench("raw", "--chain", folder / "chain.rlp"))
        for _ in range(FILLED_BEFORE):
            submit(server, next(batches))
        with watch(server, options.blocks) as process:
            is_over = threading.Event()
            feeding = threading.Thread(target=feed, args=(server, batches, is_over))
            feeding.start()
            try:
                return watched(process, lambda transactions: transactions >= 200)
            finally:
                is_over.set()
                feeding.join()


def feed(server, batches, is_over):
    for batch in batches:
        submit(server, batch)
        if is_over.wait(1):
            return


def submit(server, transactions):
    """Submits transactions in batches. The signing transactions among them are refused, as the blocks that they sign do
    not exist."""
    call = lambda raw: {"jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [raw]}
    for start in range(0, len(transactions), BATCH):
        server.post([call(raw) for raw in transactions[start : start + BATCH]])
