"""A masternode with 25 peers that makes a full block each second, for a long time: memory, open files and threads must stay flat.

The network is that of the chain `load`, with the node as its only masternode. Senders of that chain keep the pool filled with
transfers to new accounts, so that the state grows too. The peers receive the blocks and transactions, and answer Pings. The
samples are judged by the rules of `soak`."""

import gzip
import json
import subprocess
import threading
import time

import importing
import servers
import soak
from network_live import with_key
from network_nodes import NETWORK, peers, source_of, wait_for_height

# The most transactions in a block of `load`: as many wait in the pool, and as many are sent each second.
FULL = 600
# Calls in a batch: a tenth of the node's limit.
BATCH = 100
PEERS = 25
# Above the addresses of the network's own contracts.
FIRST_RECEIVER = 1 << 64
PASSWORD = "soak"


class Sender(threading.Thread):
    """Sends transfers by the node's unlocked accounts until it is stopped."""

    def __init__(self, server, accounts):
        super().__init__(daemon=True)
        self.server, self.accounts = server, accounts
        self.stopped, self.failure, self.sent = threading.Event(), None, 0

    def run(self):
        try:
            while not self.stopped.wait(0.05):
                if int(self.server.call("txpool_status")["pending"], 16) < FULL:
                    self.send_batch()
        except BaseException as error:
            self.failure = error

    def send_batch(self):
        calls = []
        for _ in range(BATCH):
            self.sent += 1
            transfer = {"from": self.accounts[self.sent % len(self.accounts)], "to": f"0x{FIRST_RECEIVER + self.sent:040x}", "value": "0x1", "gas": "0x5208"}
            calls.append({"jsonrpc": "2.0", "id": self.sent, "method": "eth_sendTransaction", "params": [transfer]})
        refused = [answer["error"] for answer in self.server.post(calls) if "error" in answer]
        if refused:
            raise RuntimeError(f"{len(refused)} transfers were refused: {refused[0]}")


def run(seconds, folder):
    """Loads the masternode for a time; returns the samples."""
    keys = json.loads(gzip.decompress((importing.CHAINS / "load.keys.json.gz").read_bytes()))["accounts"]
    genesis, datadir, password = source_of(folder)[0], folder / "soak", folder / "password"
    password.touch(mode=0o600)
    password.write_text(PASSWORD)
    senders = [account for account in keys if account["role"] == "sender of traffic"]
    for account in senders:
        stored(account["privateKey"], datadir, folder / "sender.key", password)
    masternode = next(account["privateKey"] for account in keys if account["role"] == "genesis masternode")
    addresses = [account["address"] for account in senders]
    arguments = ["--genesis", str(genesis), *NETWORK, "--http.api", "eth,net,web3,admin,txpool", *soak.SETTINGS]
    arguments += [*with_key(folder / "key", masternode), "--unlock", ",".join(addresses), "--password", str(password)]
    with servers.tenon(datadir, *arguments, "--allow-insecure-unlock", core=None, command="run") as server:
        wait_for_height(server, 2)
        with peers("idle", server, "--peers", PEERS):
            return samples_of(server, Sender(server, addresses), seconds)


def samples_of(server, sender, seconds):
    sender.start()
    samples, begun, sent = [], time.monotonic(), 0
    while (elapsed := time.monotonic() - begun) < seconds:
        time.sleep(max(seconds / soak.SAMPLES, 1))
        if sender.failure:
            raise SystemExit(f"sending failed: {sender.failure}")
        connected = int(server.call("net_peerCount"), 16)
        if connected != PEERS:
            raise SystemExit(f"{connected} of {PEERS} peers are connected")
        samples.append(soak.sample(server, elapsed, sender.sent - sent))
        sent = sender.sent
    sender.stopped.set()
    sender.join(60)
    return samples


def stored(key, datadir, path, password):
    """Stores a private key in the data folder's keystore."""
    path.write_text(key.removeprefix("0x"))
    command = [str(servers.TENON), "account", "import", str(path), "--datadir", str(datadir), "--password", str(password)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
