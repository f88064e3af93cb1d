"""Requests per second and latencies, side by side: hyper with a constant answer, anvil, and Tenon on every transport."""

import json
import sys
import time

import servers
from targets import Target

TOKEN = json.loads((servers.ROOT / "tests" / "data" / "contracts" / "Token.json").read_text())["bytecode"]
TRANSFER_TOPIC = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
BLOCK_TRANSACTIONS = 100
BLOCKS = 5
TIME_LIMIT = 3
"""Seconds that a server has for a single request. Longer ones are left out of the table for it."""
MAX_QUEUE = 12
"""Maximum seconds in which a server answers one request per connection. If it needs more, the row shows its rate with a
single client: on one core, more connections would not make it faster."""
SLOW_QUEUE = 1.5
"""If one request per connection takes more seconds than this, the row is measured once, for that long."""


def requests(chain):
    """The measured requests, by name in the table."""
    one = lambda method, *params: {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
    account, block = chain["account"], chain["block"]
    log_filter = {"fromBlock": block, "toBlock": block, "address": chain["token"], "topics": [TRANSFER_TOPIC]}
    balance_of = {"to": chain["token"], "data": "0x70a08231" + account[2:].rjust(64, "0")}
    number = one("eth_blockNumber")
    return {
        "eth_blockNumber": number,
        "eth_getBalance latest": one("eth_getBalance", account, "latest"),
        "eth_getBalance historical": one("eth_getBalance", account, chain["old_block"]),
        "eth_call balanceOf": one("eth_call", balance_of, "latest"),
        f"eth_getBlockByNumber, {BLOCK_TRANSACTIONS} full": one("eth_getBlockByNumber", block, True),
        f"eth_getLogs, {BLOCK_TRANSACTIONS} logs": one("eth_getLogs", log_filter),
        "batch of 100 eth_blockNumber": [dict(number, id=position) for position in range(100)],
        f"debug_traceBlockByNumber, {BLOCK_TRANSACTIONS} calls": one("debug_traceBlockByNumber", block, {"tracer": "callTracer"}),
    }


def make_chain(server, close_block):
    """A token and blocks of a hundred transfers each; `close_block` ends a block of the server."""
    accounts = server.call("eth_accounts")[:10]
    sent = server.call("eth_sendTransaction", {"from": accounts[0], "data": TOKEN + f"{10**12:064x}", "gas": hex(3_000_000)})
    close_block(server)
    token = server.call("eth_getTransactionReceipt", sent)["contractAddress"]
    old_block = server.call("eth_blockNumber")
    send_all(server, [transfer(accounts[0], token, account, 10**9) for account in accounts[1:]])
    close_block(server)
    recipient = 0x1000
    full = 0
    for _ in range(4 * BLOCKS):
        transfers = []
        for position in range(BLOCK_TRANSACTIONS):
            recipient += 1
            transfers.append(transfer(accounts[position % len(accounts)], token, f"0x{recipient:040x}", 1 + position))
        send_all(server, transfers)
        close_block(server)
        block = server.call("eth_getBlockByNumber", "latest", False)
        if len(block["transactions"]) == BLOCK_TRANSACTIONS:
            full, full_block = full + 1, block["number"]
        if full == BLOCKS:
            return {"account": accounts[0], "token": token, "block": full_block, "old_block": old_block}
    raise SystemExit(f"{server.name} did not make blocks of {BLOCK_TRANSACTIONS} transactions")


def transfer(sender, token, recipient, value):
    data = "0xa9059cbb" + recipient[2:].rjust(64, "0") + f"{value:064x}"
    return {"from": sender, "to": token, "data": data, "gas": hex(120_000)}


def send_all(server, transactions):
    batch = [
        {"jsonrpc": "2.0", "id": position, "method": "eth_sendTransaction", "params": [transaction]}
        for position, transaction in enumerate(transactions)
    ]
    refused = [answer["error"] for answer in server.post(batch) if "error" in answer]
    if refused:
        raise SystemExit(f"{server.name} refused a transaction: {refused[0]}")


def next_timed_block(server):
    """Waits until a node with blocks on a timer has made two: then nothing is pending, and the next batch has a
    whole period."""
    height = int(server.call("eth_blockNumber"), 16)
    while server.call("txpool_status")["pending"] != "0x0" or int(server.call("eth_blockNumber"), 16) == height:
        time.sleep(0.005)


def prepare_tenon(datadir, program=servers.TENON):
    """Makes the chain with a node with blocks on a timer."""
    with servers.tenon(datadir, "--block-time", "500ms", program=program) as server:
        return make_chain(server, next_timed_block)


def prepare_anvil(server):
    server.call("evm_setAutomine", False)
    chain = make_chain(server, lambda server: server.call("evm_mine"))
    server.call("evm_setAutomine", True)
    return chain


def seconds_alone(server, body, limit=TIME_LIMIT):
    """Time of a request without other load, the minimum of five; `None` if longer than `limit` seconds."""
    times = []
    try:
        for _ in range(5):
            begun = time.monotonic()
            server.post(body, limit)
            times.append(time.monotonic() - begun)
    except OSError:
        return None
    return min(times)


def measure(arguments, targets, alone):
    """Medians by (request, connections, server and transport). The targets alternate, so that noise affects all
    alike."""
    names = list(next(iter(targets.values()))[2])
    cells = {}
    for connections in arguments.connections:
        for name in names:
            if arguments.only and arguments.only not in name:
                continue
            begun = time.monotonic()
            rounds = {target: [] for target in targets}
            for number in range(arguments.rounds):
                for target, (server, transport, bodies) in targets.items():
                    if name not in bodies or any("failure" in run for run in rounds[target]):
                        continue
                    queue = alone[server.name].get(name, 0) * connections
                    if queue > MAX_QUEUE and number == 0:
                        rounds[target].append(asked_alone(alone[server.name][name]))
                    if queue > MAX_QUEUE or (queue > SLOW_QUEUE and number > 0):
                        continue
                    seconds = max(arguments.seconds, queue) if queue > SLOW_QUEUE else arguments.seconds
                    rounds[target].append(servers.load(server, transport, bodies[name], connections, seconds))
            for target, runs in rounds.items():
                cells[name, connections, target] = median(name, target, runs)
            print(f"{connections:5} connections: {name}, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return cells


def asked_alone(seconds):
    """The row of a server that would need minutes for one request per connection: its rate with a single client."""
    micros = seconds * 1e6
    return {"per_second": 1 / seconds, "p50_micros": micros, "p99_micros": micros, "alone": True}


def median(name, target, runs):
    failed = next((run for run in runs if "failure" in run), None)
    if failed:
        print(f"{target} cannot be measured with {name}: {failed['failure']}", file=sys.stderr)
    if failed or not runs:
        return None
    return sorted(runs, key=lambda run: run["per_second"])[len(runs) // 2]


def run(arguments, folder, stack):
    """Starts the servers, measures, and returns the cells."""
    chain = prepare_tenon(folder / "data")
    limit = stack.enter_context(servers.limit(folder))
    tenon = stack.enter_context(servers.tenon(folder / "data"))
    bodies = requests(chain)
    constant = {"eth_blockNumber": bodies["eth_blockNumber"]}
    targets = {
        "limit": (limit, "HTTP", constant),
        "limit Unix": (limit, "Unix", constant),
        "Tenon HTTP": (tenon, "HTTP", bodies),
        "Tenon WebSocket": (tenon, "WebSocket", bodies),
        "Tenon Unix": (tenon, "Unix", bodies),
    }
    alone = {"limit": {}, tenon.name: {name: seconds_alone(tenon, body) or 0 for name, body in bodies.items()}}
    if servers.ANVIL.exists():
        anvil, own, alone["anvil"] = rival(stack)
        targets["anvil"] = (anvil, "HTTP", own)
        targets = {name: targets[name] for name in ("limit", "limit Unix", "anvil", "Tenon HTTP", "Tenon WebSocket", "Tenon Unix")}
    else:
        print("anvil is not installed: measured without it", file=sys.stderr)
    # The first requests include one-time costs.
    for server, transport, own in targets.values():
        for body in own.values():
            servers.load(server, transport, body, 1, 0.1)
    return measure(arguments, order(targets), alone)


def rival(stack):
    """anvil with its chain, the requests that it answers in time, and its time for each. Measured in a process that
    ends afterwards, because it continues work whose client has gone."""
    with servers.anvil() as trial:
        times = {name: seconds_alone(trial, body) for name, body in requests(prepare_anvil(trial)).items()}
        trial.process.kill()
    anvil = stack.enter_context(servers.anvil())
    bodies = requests(prepare_anvil(anvil))
    for name in [name for name, seconds in times.items() if seconds is None]:
        print(f"anvil gave no answer to {name} in {TIME_LIMIT} s: left out", file=sys.stderr)
        del bodies[name]
    return anvil, bodies, {name: seconds for name, seconds in times.items() if seconds is not None}


def order(targets):
    """The target with all requests comes first; its names are used in the table."""
    return dict(sorted(targets.items(), key=lambda item: -len(item[1][2])))


def ratio(cells, name, connections, target, base):
    """Requests per second of a target as a multiple of a base's; `None` if one is missing, infinite if the base
    answered nothing in the row's time."""
    own, other = cells.get((name, connections, target)), cells.get((name, connections, base))
    if not own or not other or not own["per_second"]:
        return None
    return own["per_second"] / other["per_second"] if other["per_second"] else float("inf")


def report(cells):
    """The tables, as Markdown: rates with their ratios, then times."""
    keys = list(dict.fromkeys((name, connections) for name, connections, _ in cells))
    column = lambda key, name, connections, *targets: [shown(cells.get((name, connections, target)), key) for target in targets]
    servers_shown = ("limit", "limit Unix", "anvil", "Tenon HTTP", "Tenon WebSocket", "Tenon Unix")
    ratios_shown = {
        "HTTP ÷ limit": ("Tenon HTTP", "limit"),
        "Unix ÷ limit": ("Tenon Unix", "limit Unix"),
        "HTTP ÷ anvil": ("Tenon HTTP", "anvil"),
        "WebSocket ÷ HTTP": ("Tenon WebSocket", "Tenon HTTP"),
        "Unix ÷ HTTP": ("Tenon Unix", "Tenon HTTP"),
    }

    print("\nAnswers per second, and ratios:\n")
    heading("limit HTTP", "limit Unix", "anvil HTTP", "Tenon HTTP", "WebSocket", "Unix", *ratios_shown)
    for row in keys:
        ratios = [ratio(cells, *row, target, base) for target, base in ratios_shown.values()]
        print_row(row, column("per_second", *row, *servers_shown) + ["-" if found is None else f"{found:.2f}" for found in ratios])

    print("\nTimes in µs: latency, and processor time of the server per answer:\n")
    waits = [f"{key} {name}" for name in ("anvil", "HTTP", "Unix") for key in ("p50", "p99")]
    heading(*waits, *(f"processor {name}" for name in ("limit HTTP", "limit Unix", "anvil", "HTTP", "Unix")))
    for row in keys:
        waited = [figure for target in ("anvil", "Tenon HTTP", "Tenon Unix") for key in ("p50_micros", "p99_micros") for figure in column(key, *row, target)]
        print_row(row, waited + column("cpu_micros", *row, "limit", "limit Unix", "anvil", "Tenon HTTP", "Tenon Unix"))

    if any(run and run.get("alone") for run in cells.values()):
        print(f"\n* needs more than {MAX_QUEUE} s for one request per connection: rate with a single client")


def heading(*columns):
    print(f"| Request | Connections | {' | '.join(columns)} |")
    print("|---|" + "--:|" * (len(columns) + 1))


def print_row(row, figures):
    name, connections = row
    print(f"| {name} | {connections:,} | {' | '.join(figures)} |")


def shown(run, key):
    """A figure of a row: whole, or with a decimal if small, and marked if measured with a single client."""
    value = run and run.get(key)
    if value is None:
        return "-"
    return f"{value:,.{1 if value < 100 else 0}f}{'*' if run.get('alone') else ''}"


def targets(cells):
    """Rows of the table of targets."""
    busy = [connections for _, connections, _ in cells if connections == 64] and 64
    if not busy:
        return
    names = list(dict.fromkeys(name for name, connections, _ in cells if connections == busy))
    for name in names:
        own, rival = cells.get((name, busy, "Tenon HTTP")), cells.get((name, busy, "anvil"))
        if name == "eth_blockNumber":
            yield Target(f"{name} ÷ limit", ratio(cells, name, busy, "Tenon HTTP", "limit"), 0.60, 0.76)
        aim = 1.6 if name == "eth_blockNumber" else 2.0
        yield Target(f"{name} ÷ anvil", ratio(cells, name, busy, "Tenon HTTP", "anvil"), 1.3, aim)
        has_both = own and rival and own["p99_micros"] is not None and rival["p99_micros"]
        late = own["p99_micros"] / rival["p99_micros"] if has_both else None
        yield Target(f"{name}: p99 ÷ anvil", late, 1.0, 0.5, is_less_better=True)
    for name in names[:2]:
        yield Target(f"{name}: Unix ÷ HTTP", ratio(cells, name, busy, "Tenon Unix", "Tenon HTTP"), 2.0, 2.3)
