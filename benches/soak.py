"""Full load for a long time: memory and open files must stay flat.

Every transport is asked without pause, a sender makes a block of every transaction, and connections come and go. What
counts is the trend after the first third, in which caches fill."""

import json
import statistics
import subprocess
import threading
import time

import rpc_table
import servers

SAMPLES = 60
TARGET_BLOCKS = 1_000_000


class Sender(threading.Thread):
    """Transfers over HTTP, a hundred a batch, until told to stop; a block is made as soon as one waits."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.stopped, self.failure = server, threading.Event(), None

    def run(self):
        try:
            accounts = self.server.call("eth_accounts")
            number = 0
            while not self.stopped.is_set():
                transactions = []
                for position in range(100):
                    number += 1
                    transactions.append({"from": accounts[position % len(accounts)], "to": f"0x{number:040x}", "value": "0x1", "gas": "0x5208"})
                rpc_table.send_all(self.server, transactions)
                # As fast as blocks are made, not faster: a full pool refuses.
                while int(self.server.call("txpool_status")["pending"], 16) > 200 and not self.stopped.is_set():
                    time.sleep(0.005)
        except BaseException as error:
            self.failure = error


def run(seconds, folder):
    """Loads a node for so long, or for a million blocks; gives the samples."""
    with servers.tenon(folder / "soak", core=None) as server:
        bodies = rpc_table.requests({"account": server.call("eth_accounts")[0], "token": "0x" + "00" * 20, "block": "0x1", "old_block": "0x0"})
        sender = Sender(server)
        sender.start()
        samples, begun = [], time.monotonic()
        while (elapsed := time.monotonic() - begun) < seconds:
            slice_seconds = max(seconds / SAMPLES, 1)
            loads = []
            # A fresh set of connections for every slice.
            for transport, name in (("HTTP", "eth_getBalance latest"), ("WebSocket", "eth_blockNumber"), ("Unix", "eth_getBalance historical")):
                command = [str(servers.BENCH), "load", *server.endpoints[transport], "--body", json.dumps(bodies[name])]
                command += ["--connections", "32", "--seconds", str(slice_seconds)]
                loads.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            answers = 0
            for process in loads:
                out, failure = process.communicate()
                if process.returncode:
                    raise SystemExit(f"a load failed: {failure}")
                answers += json.loads(out)["requests"]
            if sender.failure:
                raise SystemExit(f"sending failed: {sender.failure}")
            # Without connections, so that samples are alike.
            time.sleep(0.3)
            blocks = int(server.call("eth_blockNumber"), 16)
            samples.append({"seconds": elapsed, "blocks": blocks, "answers": answers, **servers.status(server.process.pid)})
            if blocks >= TARGET_BLOCKS:
                break
        sender.stopped.set()
        sender.join(60)
        return samples


def report(samples):
    """A summary of the run."""
    third = max(len(samples) // 3, 1)
    middle, last = samples[third : 2 * third] or samples, samples[2 * third :] or samples
    mean = lambda part, key: statistics.mean(sample[key] for sample in part)
    hours = max(mean(last, "seconds") - mean(middle, "seconds"), 1) / 3600
    answers = sum(sample["answers"] for sample in samples)
    print(f"\nsoak: {samples[-1]['seconds']:,.0f} s, {samples[-1]['blocks']:,} blocks, {answers:,} answers")
    print("\n| | at the beginning | middle third | last third | largest | trend an hour |")
    print("|---|--:|--:|--:|--:|--:|")
    for key, name in (("rss", "memory, MB"), ("files", "open files"), ("threads", "threads")):
        growth = (mean(last, key) - mean(middle, key)) / hours
        largest = max(sample[key] for sample in samples)
        print(f"| {name} | {samples[0][key]:.0f} | {mean(middle, key):.1f} | {mean(last, key):.1f} | {largest:.0f} | {growth:+.1f} |")
