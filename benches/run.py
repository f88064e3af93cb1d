#!/usr/bin/env python3
"""Compares the node with a minimal server and with other nodes, as ratios of one run, and checks the figures against the targets.

  requests  hyper with a constant answer (the limit), anvil (if installed), Tenon on HTTP, WebSocket and Unix socket. The
            servers are pinned to one core and the load to another; they take turns for several rounds, and the median
            round counts
  start     seconds to the first answer, and idle memory
  hops      the round trip to a plugin (criterion)
  import    benches/importing.py with its defaults: compared with the sum of its steps, over growing states
  mainnet   benches/mainnet.py with its defaults: a chain like the main network's, compared with the reference client; an
            hour, only if it is named
  network   benches/network.py with its defaults: sync, the cost of peers, votes, blocks of others and its own
  device    benches/device.py with its defaults: effect of a simulated hardware wallet; the signing service's decision
  sweep     benches/sweep.py with its defaults: every method that reads, compared with the reference client and anvil

Absolute figures differ between machines; docs/performance.md records the ratios.

  benches/run.py                                         everything but mainnet: about an hour
  benches/run.py --parts requests --connections 64       the requests that have targets: about four minutes
  benches/run.py --soak 3600          full load for an hour (or a million blocks); memory and files must stay flat
  benches/run.py --soak 3600 --peers  the same for a masternode with 25 peers that makes a full block each second
"""

import argparse
import contextlib
import json
import pathlib
import sys
import tempfile

import device
import hops
import importing
import mainnet
import network
import network_soak
import rpc_table
import servers
import soak
import start
import sweep
from targets import report_targets

USUAL = ("requests", "start", "hops", "import", "network", "device", "sweep")
PARTS = (*USUAL, "mainnet")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=USUAL)
    parser.add_argument("--seconds", type=float, default=1, help="how long each round of each row of requests lasts")
    parser.add_argument("--rounds", type=int, default=3, help="of each row of requests")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 64, 1_000])
    parser.add_argument("--only", help="only requests whose name contains this")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="load for so long instead of measuring")
    parser.add_argument("--peers", action="store_true", help="with --soak: blocks for peers instead of requests")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here too")
    arguments = parser.parse_args()

    servers.allow_many_files()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenon-bench-", ignore_cleanup_errors=True)))
        if arguments.soak:
            samples = (network_soak if arguments.peers else soak).run(arguments.soak, folder)
            write(arguments.json, samples)
            return None if soak.report(samples) else 1
        figures, targets = measure(arguments, folder)
    report_targets(targets)
    print("Memory and open files under an hour of full load are checked separately: make soak")
    write(arguments.json, figures)


def measure(arguments, folder):
    """Runs the parts one after the other, prints their results, and returns the figures by part and the targets."""
    figures, targets = {}, []
    if "start" in arguments.parts:
        figures["start"] = start.run(folder)
        start.report(figures["start"])
        targets += start.targets(figures["start"])
    if "hops" in arguments.parts:
        figures["hops"] = hops.run()
        targets += hops.targets(figures["hops"])
    if "requests" in arguments.parts:
        with contextlib.ExitStack() as stack:
            cells = rpc_table.run(arguments, folder, stack)
        rpc_table.report(cells)
        targets = [*rpc_table.targets(cells), *targets]
        figures["rpc"] = [
            {"request": name, "connections": connections, "server": server, **(run or {})}
            for (name, connections, server), run in cells.items()
        ]
    if "import" in arguments.parts:
        figures["import"] = importing.measure(importing.arguments([]))
        print(importing.report(figures["import"]))
        targets += importing.targets(figures["import"])
    if "mainnet" in arguments.parts:
        figures["mainnet"] = mainnet.measure(mainnet.arguments([]))
        print(mainnet.report(figures["mainnet"]))
        targets += mainnet.targets(figures["mainnet"])
    if "network" in arguments.parts:
        figures["network"] = network.measure(network.arguments([]))
        print(network.report(figures["network"]))
        targets += network.targets(figures["network"])
    if "device" in arguments.parts:
        figures["device"] = device.measure(device.arguments([]), folder)
        targets += device.targets(figures["device"])
    if "sweep" in arguments.parts:
        found = sweep.measure(sweep.arguments([]), folder)
        sweep.report(found)
        targets += sweep.targets(found)
        figures["sweep"] = sweep.plain(found)
    return figures, targets


def write(path, figures):
    if path:
        path.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
