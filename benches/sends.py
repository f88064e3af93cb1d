#!/usr/bin/env python3
"""Measures the transactions per second that 64 clients send for one unlocked account without nonces, compared with the
reference client. No blocks are made, so only filling in, signing and the pool are measured.

TENON_REFERENCE=PATH names the reference's binary. The nodes take turns; each round uses an account of its own.

  benches/sends.py [--seconds 1] [--rounds 3]
"""

import argparse
import os
import pathlib
import subprocess
import tempfile
import time

import load_chain
import servers
from targets import Target, report_targets

CLIENTS = 64
FIRST_SENDER = 100
MIN_RATIO, AIM = 2, 3
"""How many times as many as the reference."""
POOL = ["--txpool-globalslots=1000000", "--txpool-accountslots=1000000"]


def measure(arguments, folder):
    """Transactions per second of each round, by server."""
    keys = load_chain.keys()
    senders = [keys[FIRST_SENDER + number] for number in range(arguments.rounds)]
    source = load_chain.unpacked(folder)
    unlocked = [*POOL, *unlocking(folder, senders)]
    rates = {}
    tenon = load_chain.tenon(folder, source, *unlocked, "--allow-insecure-unlock")
    with tenon as tenon, load_chain.reference(folder, source, *unlocked) as rival:
        for server in (tenon, rival):
            wait_until_unlocked(server, senders)
        for address, _ in senders:
            for server in (tenon, rival):
                rates.setdefault(server.name, []).append(sends(server, address, arguments.seconds))
    return rates


def unlocking(folder, senders):
    """Arguments that unlock the senders at the start; their key files are written by the reference."""
    keystore, password, key_file = folder / "keystore", folder / "password", folder / "key"
    # The reference requires one line for each account.
    password.write_text("measured\n" * len(senders))
    binary = os.environ["TENON_REFERENCE"]
    for _, key in senders:
        key_file.write_text(key.removeprefix("0x"))
        command = [binary, "account", "import", "--lightkdf", "--keystore", str(keystore), "--password", str(password), str(key_file)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    addresses = ",".join(address for address, _ in senders)
    return ["--keystore", str(keystore), "--unlock", addresses, "--password", str(password)]


def wait_until_unlocked(server, senders, within=30):
    deadline = time.monotonic() + within
    while True:
        try:
            return [server.call("eth_sign", address, "0x00") for address, _ in senders]
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def sends(server, address, seconds):
    """Transactions per second of an account. Checks that its pending nonce has grown by their number."""
    nonce = lambda: int(server.call("eth_getTransactionCount", address, "pending"), 16)
    before = nonce()
    transaction = {"from": address, "to": "0x" + "77" * 20, "value": "0x1", "gas": "0x5208"}
    request = {"jsonrpc": "2.0", "id": 1, "method": "eth_sendTransaction", "params": [transaction]}
    found = servers.load(server, "HTTP", request, CLIENTS, seconds)
    if "failure" in found:
        raise SystemExit(f"{server.name}: {found['failure']}")
    if nonce() - before < found["requests"]:
        raise SystemExit(f"{server.name} answered {found['requests']} sends, but {nonce() - before} are pending")
    return found["per_second"]


def report(rates):
    print("\n| Sends per second, 64 clients, one account, without nonce | " + " | ".join(f"round {number + 1}" for number in range(len(rates["Tenon"]))) + " |")
    print("|---|" + "--:|" * len(rates["Tenon"]))
    for name, found in rates.items():
        print(f"| {name} | {' | '.join(f'{rate:,.0f}' for rate in found)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not os.environ.get("TENON_REFERENCE"):
        raise SystemExit("TENON_REFERENCE is not set")
    servers.allow_many_files()
    with tempfile.TemporaryDirectory(prefix="tenon-sends-", ignore_cleanup_errors=True) as folder:
        rates = measure(arguments, pathlib.Path(folder))
    report(rates)
    middle = {name: sorted(found)[len(found) // 2] for name, found in rates.items()}
    report_targets([Target("sends per second ÷ reference", middle["Tenon"] / middle["reference"], MIN_RATIO, AIM)])


if __name__ == "__main__":
    main()
