"""`docs/interface-differences.md`: every row of the page matches the node's behaviour."""

import json
import re

import pytest

import chains
from tenon_node import ROOT, RpcError

PAGE = ROOT / "docs" / "interface-differences.md"
CONTRACT = "0x" + "0c" * 20
PROFILES = {
    "debug_blockProfile": [1],
    "debug_cpuProfile": [1],
    "debug_goTrace": [1],
    "debug_mutexProfile": [1],
    "debug_startCPUProfile": [],
    "debug_startGoTrace": [],
    "debug_writeBlockProfile": [],
    "debug_writeMemProfile": [],
    "debug_writeMutexProfile": [],
}


@pytest.fixture(scope="module")
def node():
    # A key file at the standard cost takes longer than a request may on a busy machine.
    options = ["--http.api", f"{chains.NAMESPACES},personal", "--lightkdf"]
    with chains.prepared("local") as path, chains.node_with(path, *options) as running:
        yield running


def error_of(node, method, *params):
    with pytest.raises(RpcError) as refused:
        node.call(method, *params)
    assert refused.value.error["code"] != -32601, method
    return refused.value.error["message"]


def block_with_transaction(node):
    for number in range(int(node.call("eth_blockNumber"), 16), 0, -1):
        if int(node.call("eth_getBlockTransactionCountByNumber", hex(number)), 16):
            return number
    raise AssertionError("no block has a transaction")


def trace_call_state(node):
    for number in range(int(node.call("eth_blockNumber"), 16), 0, -1):
        sender = (node.call("eth_getTransactionByBlockNumberAndIndex", hex(number), "0x0") or {}).get("from")
        before, after = (int(node.call("eth_getBalance", sender or CONTRACT, hex(n)), 16) for n in (number - 1, number))
        if before != after:
            break
    assert before != after
    # Returns the balance of the sender.
    code = f"0x73{sender[2:]}3160005260206000f3"
    traced = node.call("debug_traceCall", {"to": CONTRACT}, hex(number), {"stateOverrides": {CONTRACT: {"code": code}}})
    assert int(traced["returnValue"], 16) == after


def set_head_result(node):
    head = int(node.call("eth_blockNumber"), 16)
    assert node.call("debug_setHead", head - 1) is None
    assert int(node.call("eth_blockNumber"), 16) == head - 1


def raw_transaction_by_index(node):
    number = hex(block_with_transaction(node))
    block = node.call("eth_getBlockByNumber", number, False)
    raw = node.call("eth_getRawTransactionByHash", block["transactions"][0])
    assert re.fullmatch("0x[0-9a-f]{100,}", raw)
    assert node.call("eth_getRawTransactionByBlockNumberAndIndex", number, "0x0") == raw
    assert node.call("eth_getRawTransactionByBlockHashAndIndex", block["hash"], "0x0") == raw


def single_fee_cap(node):
    asked = {"to": CONTRACT, "gas": "0x5208", "value": "0x0"}
    for given, price in (("maxFeePerGas", "0x174876e800"), ("maxPriorityFeePerGas", "0x5")):
        filled = node.call("eth_fillTransaction", {**asked, given: price})["tx"]
        assert filled[given] == price and filled["maxFeePerGas"] and filled["maxPriorityFeePerGas"]


def signed_transaction(node):
    account = node.call("personal_newAccount", "a password")
    asked = {"from": account, "to": CONTRACT, "gas": "0x5208", "gasPrice": "0x5d21dba00", "nonce": "0x0", "value": "0x0"}
    signed = node.call("personal_signTransaction", asked, "a password")
    assert set(signed) == {"raw", "tx"} and signed["tx"]["gas"] == "0x5208"


def no_work(node):
    message = error_of(node, "eth_getWork")
    assert "signer missing" in message or "no work available" in message


def no_network(node):
    assert not {"id", "enode", "ip"} & set(node.call("admin_nodeInfo"))


def pending_logs_when_asked(node):
    # Nothing waits in the pool of this node; pending logs themselves are tested in plugins/eth.
    assert node.call("eth_getLogs", {"fromBlock": "pending", "toBlock": "pending"}) == []
    logs = node.call("eth_getLogs", {"fromBlock": "earliest", "toBlock": "pending"})
    assert logs and all(log["blockHash"] for log in logs)
    watched = node.call("eth_newFilter", {"fromBlock": "pending", "toBlock": "pending"})
    assert node.call("eth_getFilterChanges", watched) == []


def profiles_in_their_folder(node):
    for method, params in PROFILES.items():
        for elsewhere in ("/tmp/profile", "../profile", "deeper/profile", "~/profile"):
            assert "rpc.files" in error_of(node, method, elsewhere, *params), method
    written = {name: [name, *PROFILES[name]] for name in ("debug_cpuProfile", "debug_blockProfile", "debug_mutexProfile")}
    for method, params in written.items():
        assert node.call(method, *params) is None
        assert (node.datadir / "files" / method).read_bytes().startswith(b"\x1f\x8b"), method
    assert "in progress" in error_of(node, "debug_stopCPUProfile")


def trace_events(node):
    node.call("debug_startGoTrace", "trace.json")
    node.call("eth_blockNumber")
    node.call("debug_stopGoTrace")
    trace = json.loads((node.datadir / "files" / "trace.json").read_text())
    assert any(event["ph"] == "X" for event in trace["traceEvents"])


def no_collector(node):
    assert "garbage collector" in error_of(node, "debug_setGCPercent", 50)


def files_in_their_folders(node):
    assert "rpc.files" in error_of(node, "debug_traceBlockFromFile", "/etc/passwd")
    number = block_with_transaction(node)
    folder = node.datadir / "files"
    folder.mkdir(exist_ok=True)
    (folder / "block.rlp").write_bytes(bytes.fromhex(node.call("debug_getBlockRlp", number)))
    traced = node.call("debug_traceBlockFromFile", "block.rlp", {"tracer": "callTracer"})
    assert traced == node.call("debug_traceBlockByNumber", hex(number), {"tracer": "callTracer"})


# In the order of the page; checks that change the chain come last.
CHECKS = [
    trace_call_state,
    raw_transaction_by_index,
    single_fee_cap,
    signed_transaction,
    no_work,
    no_network,
    pending_logs_when_asked,
    profiles_in_their_folder,
    trace_events,
    no_collector,
    files_in_their_folders,
    set_head_result,
]


def test_the_page_has_a_row_with_a_reason_for_each_check_and_no_other():
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert sorted(name for name, *_ in rows) == sorted(check.__name__ for check in CHECKS)
    assert all(cell.strip() for row in rows for cell in row)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_nodes_differences_match_the_page(node, check):
    check(node)
