#!/usr/bin/env python3
"""Measures every method that reads over HTTP with 64 connections, compared with the reference client and anvil.

  reference  the recorded native chain `load` (270 blocks, up to 600 transactions each) in both nodes;
             TENON_REFERENCE=PATH names the reference's binary. Rows with different answers are named, because their
             ratio may compare different work
  anvil      a new chain with a token and blocks of 100 transfers, made by the same requests in both

The servers are pinned to one core and the load to another; they take turns for several rounds, and the median round
counts. The run fails if a method of these namespaces in the OpenRPC document has neither a row nor a reason in `LEFT_OUT`.

  benches/sweep.py [--only TEXT...] [--beside reference] [--seconds 0.5] [--rounds 3] [--json FILE]

About 15 minutes.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

import load_chain
import rpc_table
import servers
from targets import Target, report_targets

NAMESPACES = ("eth", "net", "web3", "txpool", "Consensus", "debug")
TIME_LIMIT = 10
"""Seconds that a server has for a single request. Longer ones are left out of the table for it."""
OF_REFERENCE, OF_ANVIL = 3, 1.3
"""How many times as fast every row must be."""
CONNECTIONS = 64
LOAD_TOKEN = "0x8450649faedfb1aafb0eafe7d8c421fdf0cdc6aa"
LOAD_ACCOUNT, LOAD_MASTERNODE, LOAD_BLOCK = 100, "0x29bb8adaaec585b4d437e1997a4ba60bde226f13", 200

NOT_OF_ANVIL = {"debug_traceTransaction, structLogs": "without --steps-tracing it answers an empty trace"}
"""Rows left out for anvil, because its answers are incomplete."""

LEFT_OUT = {
    "writes, signs or fills with keys": (
        "eth_sendRawTransaction eth_sendRawTransactionSync eth_sendTransaction eth_sign eth_signTypedData_v4 eth_signTransaction "
        "eth_fillTransaction eth_resend eth_submitHashrate eth_submitWork debug_setHead debug_chaindbCompact"
    ),
    "makes or removes an entry that the next request needs": (
        "eth_newFilter eth_newBlockFilter eth_newPendingTransactionFilter eth_uninstallFilter eth_subscribe eth_unsubscribe "
        "debug_subscribe debug_unsubscribe"
    ),
    "is about the process, not the chain": (
        "debug_memStats debug_gcStats debug_stacks debug_freeOSMemory debug_setGCPercent debug_verbosity debug_vmodule "
        "debug_startCPUProfile debug_stopCPUProfile debug_cpuProfile debug_startGoTrace debug_stopGoTrace debug_goTrace "
        "debug_writeMemProfile debug_blockProfile debug_mutexProfile debug_writeBlockProfile debug_writeMutexProfile "
        "debug_setBlockProfileRate debug_setMutexProfileFraction debug_chaindbProperty debug_dbGet"
    ),
    "takes a header as an object, and answers what getV2BlockByHash does": "Consensus_getV2BlockByHeader",
    "answers an error on these chains": "eth_getWork eth_getTokenStats eth_getStakerROI eth_getStakerROIMasternode debug_traceBlockFromFile debug_preimage",
}


class Chain:
    """The values that requests name: accounts, contracts, and a full block with its transactions."""

    def __init__(self, server, account, token, number, old, masternode=None):
        self.server, self.account, self.token, self.number = server, account, token, number
        self.old, self.masternode = old, masternode
        self.block = server.call("eth_getBlockByNumber", number, True)
        self.hash = self.block["hash"]
        transactions = self.block["transactions"]
        self.index = hex(len(transactions) // 2)
        self.transaction = transactions[len(transactions) // 2]["hash"]
        # A transaction that calls a contract, in the last quarter of the block: tracing it executes those before it again.
        late = transactions[len(transactions) * 3 // 4 :]
        self.call_index, self.called = next((hex(int(one["transactionIndex"], 16)), one["hash"]) for one in late if one["input"] != "0x")

    def parent(self):
        return hex(int(self.number, 16) - 1)


def rows(chain):
    """Method, special property of the row, and parameters."""
    call = {"from": chain.account, "to": chain.token, "data": "0x70a08231" + chain.account[2:].rjust(64, "0")}
    move = {"from": chain.account, "to": chain.token, "data": "0xa9059cbb" + "77".rjust(64, "0") + f"{1:064x}"}
    logs = {"fromBlock": chain.number, "toBlock": chain.number, "address": chain.token}
    slot = "0x" + "0" * 64
    yield from [
        ("eth_getFilterChanges", "", ["$blocks"]),
        ("eth_getFilterLogs", "one block", ["$logs"]),
        ("eth_blockNumber", "", []),
        ("eth_chainId", "", []),
        ("eth_protocolVersion", "", []),
        ("eth_syncing", "", []),
        ("eth_accounts", "", []),
        ("eth_requestAccounts", "", []),
        ("eth_config", "", []),
        ("eth_capabilities", "", []),
        ("eth_coinbase", "", []),
        ("eth_etherbase", "", []),
        ("eth_mining", "", []),
        ("eth_hashrate", "", []),
        ("eth_getBalance", "latest", [chain.account, "latest"]),
        ("eth_getBalance", "history", [chain.account, chain.old]),
        ("eth_getTransactionCount", "latest", [chain.account, "latest"]),
        ("eth_getTransactionCount", "pending", [chain.account, "pending"]),
        ("eth_getCode", "", [chain.token, "latest"]),
        ("eth_getStorageAt", "", [chain.token, "0x0", "latest"]),
        ("eth_getStorageValues", "", [{chain.token: [slot]}, "latest"]),
        ("eth_getProof", "account", [chain.account, [], "latest"]),
        ("eth_getProof", "account and slot", [chain.token, [slot], "latest"]),
        ("eth_getAccountInfo", "", [chain.token, "latest"]),
        ("eth_getBlockByNumber", "hashes", [chain.number, False]),
        ("eth_getBlockByNumber", "full", [chain.number, True]),
        ("eth_getBlockByHash", "hashes", [chain.hash, False]),
        ("eth_getBlockByHash", "full", [chain.hash, True]),
        ("eth_getHeaderByNumber", "", [chain.number]),
        ("eth_getHeaderByHash", "", [chain.hash]),
        ("eth_getBlockReceipts", "", [chain.number]),
        ("eth_getBlockTransactionCountByNumber", "", [chain.number]),
        ("eth_getBlockTransactionCountByHash", "", [chain.hash]),
        ("eth_getUncleCountByBlockNumber", "", [chain.number]),
        ("eth_getUncleCountByBlockHash", "", [chain.hash]),
        ("eth_getUncleByBlockNumberAndIndex", "", [chain.number, "0x0"]),
        ("eth_getUncleByBlockHashAndIndex", "", [chain.hash, "0x0"]),
        ("eth_getTransactionByHash", "", [chain.transaction]),
        ("eth_getTransactionByBlockHashAndIndex", "", [chain.hash, chain.index]),
        ("eth_getTransactionByBlockNumberAndIndex", "", [chain.number, chain.index]),
        ("eth_getRawTransactionByHash", "", [chain.transaction]),
        ("eth_getRawTransactionByBlockHashAndIndex", "", [chain.hash, chain.index]),
        ("eth_getRawTransactionByBlockNumberAndIndex", "", [chain.number, chain.index]),
        ("eth_getTransactionReceipt", "", [chain.called]),
        ("eth_getTransactionAndReceiptProof", "", [chain.called]),
        ("eth_call", "balance of a token", [call, "latest"]),
        ("eth_call", "history", [call, chain.number]),
        ("eth_estimateGas", "value", [{"from": chain.account, "to": chain.token[:-1] + "0", "value": "0x1"}, "latest"]),
        ("eth_estimateGas", "token transfer", [move, "latest"]),
        ("eth_createAccessList", "token transfer", [move, "latest"]),
        ("eth_simulateV1", "token transfer", [{"blockStateCalls": [{"calls": [move]}]}, "latest"]),
        ("eth_gasPrice", "", []),
        ("eth_maxPriorityFeePerGas", "", []),
        ("eth_baseFee", "", []),
        ("eth_blobBaseFee", "", []),
        ("eth_feeHistory", "10 blocks, 3 percentiles", ["0xa", "latest", [25, 50, 75]]),
        ("eth_feeHistory", "10 blocks", ["0xa", "latest", []]),
        ("eth_pendingTransactions", "", []),
        ("eth_getLogs", "one block", [logs]),
        ("eth_getLogs", "whole chain, no match", [{"fromBlock": "0x0", "toBlock": "latest", "address": chain.account}]),
        ("net_version", "", []),
        ("net_listening", "", []),
        ("net_peerCount", "", []),
        ("web3_clientVersion", "", []),
        ("web3_sha3", "", ["0x68656c6c6f20776f726c64"]),
        ("txpool_status", "", []),
        ("txpool_content", "", []),
        ("txpool_contentFrom", "", [chain.account]),
        ("txpool_inspect", "", []),
        ("debug_traceTransaction", "callTracer", [chain.called, {"tracer": "callTracer"}]),
        ("debug_traceTransaction", "structLogs", [chain.called, {}]),
        ("debug_traceTransaction", "prestateTracer", [chain.called, {"tracer": "prestateTracer"}]),
        ("debug_traceBlockByNumber", "callTracer", [chain.number, {"tracer": "callTracer"}]),
        ("debug_traceBlockByHash", "callTracer", [chain.hash, {"tracer": "callTracer"}]),
        ("debug_traceBlock", "callTracer", ["$raw", {"tracer": "callTracer"}]),
        ("debug_traceCall", "callTracer", [move, "latest", {"tracer": "callTracer"}]),
        ("debug_traceCall", "structLogs", [move, "latest", {}]),
        ("debug_intermediateRoots", "", [chain.hash]),
        ("debug_executionWitness", "", [chain.number]),
        ("debug_storageRangeAt", "100 slots", [chain.hash, 0, chain.token, "0x", 100]),
        ("debug_accountRange", "100 accounts", [chain.number, "0x", 100, True, True, False]),
        ("debug_dumpBlock", "", [chain.number]),
        ("debug_getModifiedAccountsByNumber", "", [int(chain.parent(), 16), int(chain.number, 16)]),
        ("debug_getModifiedAccountsByHash", "", [chain.block["parentHash"], chain.hash]),
        ("debug_getBadBlocks", "", []),
        ("debug_getRawHeader", "", [chain.number]),
        ("debug_getRawBlock", "", [chain.number]),
        ("debug_getRawReceipts", "", [chain.number]),
        ("debug_getRawTransaction", "", [chain.transaction]),
        ("debug_getBlockRlp", "", [int(chain.number, 16)]),
        ("debug_printBlock", "", [int(chain.number, 16)]),
        ("debug_seedHash", "", [int(chain.number, 16)]),
    ]
    if chain.masternode:
        yield from native_rows(chain)


def native_rows(chain):
    """Methods of the native profile. The reference's names are used; `Consensus_` and `XDPoS_` are one plugin."""
    return [
        ("XDPoS_getSnapshot", "", ["latest"]),
        ("XDPoS_getSnapshotAtHash", "", [chain.hash]),
        ("XDPoS_getSigners", "", ["latest"]),
        ("XDPoS_getSignersAtHash", "", [chain.hash]),
        ("XDPoS_getMasternodesByNumber", "", ["latest"]),
        ("XDPoS_getLatestPoolStatus", "", []),
        ("XDPoS_getV2BlockByNumber", "", [chain.number]),
        ("XDPoS_getV2BlockByHash", "", [chain.hash]),
        ("XDPoS_networkInformation", "", []),
        ("XDPoS_getMissedRoundsInEpochByBlockNum", "", ["latest"]),
        ("XDPoS_getEpochNumbersBetween", "", ["0x1", "latest"]),
        ("XDPoS_getBlockInfoByEpochNum", "", [1]),
        ("eth_getOwnerByCoinbase", "", [chain.masternode, "latest"]),
        ("eth_getRewardByHash", "", [chain.hash]),
        ("eth_getBlockSignersByNumber", "", [chain.number]),
        ("eth_getBlockSignersByHash", "", [chain.hash]),
        ("eth_getBlockFinalityByNumber", "", [chain.number]),
        ("eth_getBlockFinalityByHash", "", [chain.hash]),
        ("eth_getCandidates", "", ["latest"]),
        ("eth_getCandidateStatus", "", [chain.masternode, "latest"]),
    ]


def bodies_of(server, chain, only):
    """The requests by name in the table. Filters are the server's own."""
    own = {
        "$blocks": lambda: server.call("eth_newBlockFilter"),
        "$logs": lambda: server.call("eth_newFilter", {"fromBlock": chain.number, "toBlock": chain.number, "address": chain.token}),
        "$raw": lambda: chain.server.call("debug_getRawBlock", chain.number),
    }
    bodies = {}
    for method, special, params in rows(chain):
        name = f"{method}, {special}" if special else method
        if only and not any(part in name for part in only):
            continue
        try:
            params = [own[value]() if isinstance(value, str) and value.startswith("$") else value for value in params]
        except RuntimeError as error:
            say(f"{server.name} cannot be asked {name}: {error}")
            continue
        bodies[name] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return bodies


def say(text):
    print(text, file=sys.stderr, flush=True)


def answered(server, bodies):
    """Sends each request once; returns the answers, without errors and without requests that take too long."""
    answers = {}
    for name, body in bodies.items():
        try:
            answer = server.post(body, TIME_LIMIT)
        except OSError:
            say(f"{server.name} gave no answer to {name} in {TIME_LIMIT} s: left out")
            server.settle()
            continue
        if "error" in answer:
            say(f"{server.name} answers {name} with {answer['error']['message'][:100]}: left out")
        else:
            answers[name] = answer["result"]
    return answers


def check_names(server, chain):
    """Every method of the document needs a row or a reason."""
    known = {name for names in LEFT_OUT.values() for name in names.split()}
    # The document lists the native profile's names on every chain.
    known |= {method.replace("XDPoS_", "Consensus_") for method, _, _ in (*rows(chain), *native_rows(chain))}
    methods = {method["name"] for method in server.call("rpc_discover")["methods"]}
    missing = sorted(name for name in methods - known if name.split("_")[0] in NAMESPACES)
    if missing:
        raise SystemExit(f"the sweep has no row for {', '.join(missing)}")


def compare(tenon, rival, chains, only, table):
    """Cells of the rows that both answer, as `rpc_table.measure` returns them."""
    bodies, answers, alone = {}, {}, {}
    for server, chain in zip((tenon, rival), chains):
        bodies[server.name] = bodies_of(server, chain, only)
        answers[server.name] = answered(server, bodies[server.name])
    if chains[0] is chains[1]:
        report_different(answers[tenon.name], answers[rival.name])
    both = [name for name in answers[tenon.name] if name in answers[rival.name]]
    if rival.name == "anvil":
        both = [name for name in both if name not in NOT_OF_ANVIL]
    for server in (tenon, rival):
        times = {name: rpc_table.seconds_alone(server, bodies[server.name][name], TIME_LIMIT) for name in both}
        alone[server.name] = {name: seconds or TIME_LIMIT for name, seconds in times.items()}
    # The first requests include one-time costs.
    for server in (tenon, rival):
        for name in both:
            servers.load(server, "HTTP", bodies[server.name][name], 8, 0.05)
    targets = {server.name: (server, "HTTP", {name: bodies[server.name][name] for name in both}) for server in (tenon, rival)}
    only_ours = sorted(set(answers[tenon.name]) - set(both))
    say(f"answered by Tenon alone: {', '.join(only_ours)}")
    return rpc_table.measure(table, targets, alone)


def report_different(ours, theirs):
    """Names the rows with different answers: their ratio may compare different work."""
    plain = lambda value: json.dumps(value, sort_keys=True)
    different = [name for name, answer in ours.items() if name in theirs and plain(answer) != plain(theirs[name])]
    say(f"answers differ: {', '.join(different) or 'none'}")


def beside_reference(only, table, folder):
    """The chain `load` in both nodes."""
    source = load_chain.unpacked(folder)
    account = load_chain.keys()[LOAD_ACCOUNT][0]
    with load_chain.tenon(folder, source) as tenon, load_chain.reference(folder, source) as rival:
        chain = Chain(tenon, account, LOAD_TOKEN, hex(LOAD_BLOCK), "0x64", LOAD_MASTERNODE)
        check_names(tenon, chain)
        return compare(tenon, rival, (chain, chain), only, table)


def beside_anvil(only, table, folder):
    """A new chain in both nodes."""
    values = rpc_table.prepare_tenon(folder / "fresh")
    everything = ["--http.api", "eth,net,web3,debug,txpool", "--auth.namespaces", ""]
    with servers.tenon(folder / "fresh", *everything) as tenon, servers.anvil() as rival:
        chains = []
        for server, found in ((tenon, values), (rival, rpc_table.prepare_anvil(rival))):
            chains.append(Chain(server, found["account"], found["token"], found["block"], found["old_block"]))
        check_names(tenon, chains[0])
        return compare(tenon, rival, chains, only, table)


def report_rival(cells, rival, least):
    """The table as Markdown."""
    print(f"\n| Request | Tenon per second | {rival} | ratio | Tenon p50 ms | {rival} | Tenon p99 ms | {rival} | |")
    print("|---|" + "--:|" * 7 + "---|")
    for name in dict.fromkeys(name for name, _, _ in cells):
        ours, theirs = cells[name, CONNECTIONS, "Tenon"], cells[name, CONNECTIONS, rival]
        if not ours or not theirs:
            continue
        found = rpc_table.ratio(cells, name, CONNECTIONS, "Tenon", rival)
        late = ours["p99_micros"] and theirs["p99_micros"] and ours["p99_micros"] > theirs["p99_micros"]
        verdict = ("**slow** " if found is not None and found < least else "") + ("**late**" if late else "")
        rates = [rpc_table.shown(run, "per_second") for run in (ours, theirs)]
        times = ["-" if run[key] is None else f"{run[key] / 1000:,.2f}" for key in ("p50_micros", "p99_micros") for run in (ours, theirs)]
        print(f"| {name} | {' | '.join(rates)} | {'-' if found is None else f'{found:.2f}'} | {' | '.join(times)} | {verdict} |")


def targets(results):
    """The rows as targets: the ratio and the p99."""
    for rival, least in (("reference", OF_REFERENCE), ("anvil", OF_ANVIL)):
        cells = results.get(rival, {})
        for name in dict.fromkeys(name for name, _, _ in cells):
            ours, theirs = cells[name, CONNECTIONS, "Tenon"], cells[name, CONNECTIONS, rival]
            yield Target(f"{name} ÷ {rival}", rpc_table.ratio(cells, name, CONNECTIONS, "Tenon", rival), least, least)
            has_both = ours and theirs and ours["p99_micros"] and theirs["p99_micros"]
            late = ours["p99_micros"] / theirs["p99_micros"] if has_both else None
            yield Target(f"{name}: p99 ÷ {rival}", late, 1.0, 1.0, is_less_better=True)


def measure(options, folder):
    """Both comparisons, as far as the other servers are available."""
    results = {}
    # `rpc_table.measure` can select rows too, but `bodies_of` has already done that.
    table = argparse.Namespace(seconds=options.seconds, rounds=options.rounds, connections=[CONNECTIONS], only=None)
    if "reference" in options.beside and not os.environ.get("TENON_REFERENCE"):
        say("TENON_REFERENCE is not set: measured without the reference client")
    elif "reference" in options.beside:
        results["reference"] = beside_reference(options.only, table, folder)
    if "anvil" in options.beside and not servers.ANVIL.exists():
        say("anvil is not installed: measured without it")
    elif "anvil" in options.beside:
        results["anvil"] = beside_anvil(options.only, table, folder)
    return results


def report(results):
    for rival, least in (("reference", OF_REFERENCE), ("anvil", OF_ANVIL)):
        if rival in results:
            report_rival(results[rival], rival, least)


def plain(results):
    """The cells as lists, for a file."""
    return [
        {"rival": rival, "request": name, "server": server, **(run or {})}
        for rival, cells in results.items()
        for (name, _, server), run in cells.items()
    ]


def arguments(given=None):
    """The options; `given` replaces the command line's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="only requests whose name contains one of these")
    parser.add_argument("--beside", nargs="+", choices=("reference", "anvil"), default=("reference", "anvil"))
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each round of each row lasts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here too")
    return parser.parse_args(given)


def main():
    options = arguments()
    servers.allow_many_files()
    with tempfile.TemporaryDirectory(prefix="tenon-sweep-", ignore_cleanup_errors=True) as folder:
        results = measure(options, pathlib.Path(folder))
    report(results)
    report_targets([target for target in targets(results) if target.verdict() == "**missed**"])
    if options.json:
        options.json.write_text(json.dumps(plain(results), indent=2) + "\n")


if __name__ == "__main__":
    main()
