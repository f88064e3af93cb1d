"""Full load for a long time: memory and open files must stay flat.

Every transport gets requests without pause, a sender makes blocks of its transactions as fast as the node accepts
them, and connections come and go. The node runs with small caches, so that they are full in the first third, which
is the warm-up. For memory and threads a line is fitted through the samples of the other two thirds, and its rise is
checked. Open files are checked by kind (`open_files`)."""

import json
import statistics
import subprocess
import threading
import time
import urllib.request

import open_files
import rpc_table
import servers

SAMPLES = 60
TARGET_BLOCKS = 1_000_000
# Small limits that are reached within minutes: MiB of cached records, and open table files. Metrics show the parts of memory.
SETTINGS = ("--cache", "64", "--database.openfiles", "32", "--metrics", "--metrics.port", "0")
# What is checked: its name, and the allowed rise after the warm-up: a part of the mean, and a minimum. Allocators keep
# and release memory in steps of some megabytes.
FLAT = {"rss": ("memory, MB", 0.05, 16), "threads": ("threads", 0.05, 4)}
# The number of table files that the database reports.
TABLES = "tenon_database_files "

# Also shown, to locate a rise: the name in the table, and the prefix of the metrics series to sum. The differences
# between allocated, active and resident are memory that the allocator keeps.
PARTS = {
    "allocated by the program": 'tenon_allocator_bytes{state="allocated"}',
    "in pages in use": 'tenon_allocator_bytes{state="active"}',
    "resident of the allocator": 'tenon_allocator_bytes{state="resident"}',
    "of it the database's block cache": "tenon_database_cache_bytes ",
    "of it memory tables": "tenon_database_memory_bytes{",
    "of it table readers": "tenon_database_table_reader_bytes ",
}


class Sender(threading.Thread):
    """Sends transfers over HTTP in batches of a hundred until stopped. Waits while more than 200 are pending."""

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
                # As fast as blocks are made, but not faster: a full pool would refuse transactions.
                while int(self.server.call("txpool_status")["pending"], 16) > 200 and not self.stopped.is_set():
                    time.sleep(0.005)
        except BaseException as error:
            self.failure = error


def run(seconds, folder):
    """Loads a node for a time, or for a million blocks; returns the samples."""
    with servers.tenon(folder / "soak", *SETTINGS, core=None) as server:
        bodies = rpc_table.requests({"account": server.call("eth_accounts")[0], "token": "0x" + "00" * 20, "block": "0x1", "old_block": "0x0"})
        sender = Sender(server)
        sender.start()
        samples, begun = [], time.monotonic()
        while (elapsed := time.monotonic() - begun) < seconds:
            slice_seconds = max(seconds / SAMPLES, 1)
            loads = []
            # New connections for every slice.
            for transport, name in (("HTTP", "eth_getBalance latest"), ("WebSocket", "eth_blockNumber"), ("Unix", "eth_getBalance historical"), ("HTTP", "eth_call balanceOf")):
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
            # Without connections, so that samples are comparable.
            samples.append(sample(server, elapsed, answers))
            if samples[-1]["blocks"] >= TARGET_BLOCKS:
                break
        sender.stopped.set()
        sender.join(60)
        return samples


def sample(server, seconds, answers):
    """The node's resources after `seconds` of load, and its answers since the last sample."""
    # Files are read between two pages of metrics: a compaction that ends meanwhile changes the number of tables.
    before = metrics(server)["tables"]
    found = {**at_rest(server), **metrics(server)}
    found["tables"] = max(found["tables"], before)
    blocks = int(server.call("eth_blockNumber"), 16)
    return {"seconds": seconds, "blocks": blocks, "answers": answers, **found}


def at_rest(server):
    """The node's resources. Connections of the finished load are closed with a delay on a busy machine: of several
    readings, the one with the fewest open files counts."""
    states, looks = [], []
    for _ in range(10):
        time.sleep(0.1)
        states.append(servers.status(server.process.pid))
        looks.append(open_files.look(server.process.pid))
    return {**min(states, key=lambda state: state["files"]), **open_files.count(looks)}


def metrics(server):
    """Megabytes by `PARTS`, and the number of table files."""
    with urllib.request.urlopen(server.metrics, timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    total = lambda start: sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(start))
    return {"tables": int(total(TABLES)), **{name: total(start) / 2**20 for name, start in PARTS.items()}}


def climbed(samples, key):
    """Mean, and the rise of a line fitted through the samples from first to last."""
    times, values = [sample["seconds"] for sample in samples], [sample[key] for sample in samples]
    if len(samples) < 2:
        return values[0], 0.0
    slope = statistics.linear_regression(times, values).slope
    return statistics.mean(values), slope * (times[-1] - times[0])


def report(samples):
    """A summary of the run; whether everything was flat after the warm-up."""
    evaluated = samples[len(samples) // 3 :]
    answers = sum(sample["answers"] for sample in samples)
    print(f"\nsoak: {samples[-1]['seconds']:,.0f} s, {samples[-1]['blocks']:,} blocks, {answers:,} answers; the first third is warm-up")
    print("\n| | start | mean after the warm-up | maximum | rise after the warm-up | limit | |")
    print("|---|--:|--:|--:|--:|--:|---|")
    is_flat = True
    for key, (name, part, least) in FLAT.items():
        mean, climb = climbed(evaluated, key)
        bound = max(part * mean, least)
        is_flat &= climb <= bound
        largest = max(sample[key] for sample in samples)
        verdict = "flat" if climb <= bound else "**climbs**"
        print(f"| {name} | {samples[0][key]:.0f} | {mean:.1f} | {largest:.0f} | {climb:+.1f} | {bound:.1f} | {verdict} |")
    shown = {"files": "open files", "tables": "tables of the database", **{name: f"{name}, MB" for name in PARTS}}
    for key, name in shown.items():
        mean, climb = climbed(evaluated, key)
        largest = max(sample[key] for sample in samples)
        print(f"| {name} | {samples[0][key]:.0f} | {mean:.1f} | {largest:.0f} | {climb:+.1f} | | |")
    rows = open_files.evaluate(evaluated)
    print("\n| After the warm-up | found | limit | maximum | |")
    print("|---|--:|--:|--:|---|")
    for row in rows:
        verdict = "good" if row["is_good"] else "**leaks**"
        print(f"| {row['name']} | {row['found']:.0f} | {row['bound']:.0f} | {row['largest']} | {verdict} |")
    is_good = is_flat and all(row["is_good"] for row in rows)
    print(f"\nsoak: {'nothing rises and nothing leaks' if is_good else 'FAILED, see the rows in bold'}")
    return is_good
