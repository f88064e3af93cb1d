"""The interface document's statements, checked on a node with a native chain and on one with a chain of the Ethereum
profile."""

import contextlib

import pytest

import chains
from tenon_node import DATA, Node, RpcError, folder, unpacked

TAGS = ("latest", "earliest", "pending", "finalized")
UNUSED_ADDRESS = "0x" + "00" * 20
CONTRACT = "0x" + "0c" * 20
NAMESPACES = "eth,net,web3,debug,txpool,admin,Consensus,XDPoS"

# Every method of the document with a parameter that is a BlockNumber or a BlockNumberOrHash: its position, the
# parameters before and after it, and the profile that has the method.
WITH_BLOCK = {
    "eth_call": ([{"to": CONTRACT}], [], "both"),
    "eth_createAccessList": ([{"to": CONTRACT, "gas": "0x5208"}], [], "both"),
    "eth_estimateGas": ([{"to": CONTRACT}], [], "both"),
    "eth_feeHistory": (["0x1"], [[]], "both"),
    "eth_getBalance": ([UNUSED_ADDRESS], [], "both"),
    "eth_getBlockByNumber": ([], [False], "both"),
    "eth_getBlockReceipts": ([], [], "both"),
    "eth_getBlockTransactionCountByNumber": ([], [], "both"),
    "eth_getCode": ([UNUSED_ADDRESS], [], "both"),
    "eth_getOwnerByCoinbase": ([UNUSED_ADDRESS], [], "native"),
    "eth_getProof": ([UNUSED_ADDRESS, []], [], "both"),
    "eth_getStorageAt": ([UNUSED_ADDRESS, "0x0"], [], "both"),
    "eth_getRawTransactionByBlockNumberAndIndex": ([], ["0x0"], "both"),
    "eth_getTransactionByBlockNumberAndIndex": ([], ["0x0"], "both"),
    "eth_getTransactionCount": ([UNUSED_ADDRESS], [], "both"),
    "eth_getUncleByBlockNumberAndIndex": ([], ["0x0"], "both"),
    "eth_getUncleCountByBlockNumber": ([], [], "both"),
    "debug_dumpBlock": ([], [], "both"),
    "debug_traceBlockByNumber": ([], [], "both"),
    "debug_traceCall": ([{"to": CONTRACT}], [], "both"),
    "Consensus_getMasternodesByNumber": ([], [], "native"),
    "Consensus_getMissedRoundsInEpochByBlockNum": ([], [], "native"),
    "Consensus_getSigners": ([], [], "native"),
    "Consensus_getSnapshot": ([], [], "native"),
    "Consensus_getV2BlockByNumber": ([], [], "native"),
    "Consensus_getEpochNumbersBetween": ([], ["latest"], "native"),
}
# Methods that fail on block 0, however it is named.
WITHOUT_GENESIS = {
    ("ethereum", "debug_traceBlockByNumber"): "genesis is not traceable",
    ("native", "debug_traceBlockByNumber"): f"parent {'00' * 32} not found",
    ("native", "Consensus_getMissedRoundsInEpochByBlockNum"): "not supported in the v1 consensus",
    ("native", "Consensus_getEpochNumbersBetween"): "not supported in the v1 consensus",
}


@pytest.fixture(scope="module")
def native():
    with chains.node_of("local") as node:
        yield node


@pytest.fixture(scope="module")
def ethereum():
    with folder() as path:
        genesis = unpacked(DATA / "chain" / "conformance-genesis.json.gz", path / "genesis.json")
        blocks = unpacked(DATA / "chain" / "conformance-chain.rlp.gz", path / "chain.rlp")
        chains.run("import", "--genesis", genesis, "--datadir", path / "data", blocks)
        with Node("run", "--genesis", genesis, "--http.api", NAMESPACES, "--auth.namespaces", "", datadir=path / "data") as node:
            yield node


@pytest.fixture(scope="module")
def fresh():
    """A native chain with only its genesis."""
    with chains.prepared("local", with_blocks=False) as path, chains.node_with(path) as node:
        yield node


def refusal(node, method, *params):
    """The error of a request; none if it succeeds."""
    try:
        node.call(method, *params)
    except RpcError as error:
        return error.error
    return None


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("method", WITH_BLOCK)
@pytest.mark.parametrize("profile", ["native", "ethereum"])
def test_every_block_number_accepts_every_tag(request, profile, method, tag):
    before, behind, has = WITH_BLOCK[method]
    if profile == "ethereum" and has == "native":
        return
    refused = refusal(request.getfixturevalue(profile), method, *before, tag, *behind)
    if tag == "earliest" and (profile, method) in WITHOUT_GENESIS:
        assert refused["message"] == WITHOUT_GENESIS[profile, method]
    elif profile == "ethereum" and tag == "finalized" and refused:
        # The imported chain has no finality: the tag is accepted and names no block.
        assert "finalized" in refused["message"] or "not found" in refused["message"], refused
    else:
        assert refused is None, refused


@pytest.mark.parametrize("profile", ["native", "ethereum"])
def test_a_fee_history_can_be_requested_in_every_spelling(request, profile):
    node = request.getfixturevalue(profile)
    wanted = node.call("eth_feeHistory", "0x3", "latest", [])
    assert len(wanted["gasUsedRatio"]) == 3
    for count in ("3", 3, "0x3"):
        assert node.call("eth_feeHistory", count, "latest", []) == wanted
        assert node.call("eth_feeHistory", count, "latest") == wanted
        assert node.call("eth_feeHistory", count, "latest", None) == wanted


@pytest.mark.parametrize("profile", ["native", "ethereum"])
def test_logs_are_searched_up_to_the_pending_block_and_no_block_is_pending(request, profile):
    node = request.getfixturevalue(profile)
    up_to_head = node.call("eth_getLogs", {"fromBlock": "earliest", "toBlock": "latest"})
    assert up_to_head and node.call("eth_getLogs", {"fromBlock": "earliest", "toBlock": "pending"}) == up_to_head
    assert node.call("eth_getLogs", {"fromBlock": "pending", "toBlock": "pending"}) == []


def test_safe_is_the_finalized_block_for_logs_of_a_native_chain(native):
    to_safe = native.call("eth_getLogs", {"fromBlock": "earliest", "toBlock": "safe"})
    assert to_safe == native.call("eth_getLogs", {"fromBlock": "earliest", "toBlock": "finalized"})
    assert native.call("eth_getLogs", {"fromBlock": "safe"}) == native.call("eth_getLogs", {"fromBlock": "finalized"})


@pytest.mark.parametrize("profile", ["native", "ethereum"])
def test_a_filter_accepts_every_range_of_a_search_and_no_block_hash(request, profile):
    node = request.getfixturevalue(profile)
    ranges = [{}, {"toBlock": "0x2"}, {"toBlock": "latest"}, {"fromBlock": "earliest", "toBlock": "latest"}]
    ranges += [{"fromBlock": "latest", "toBlock": "pending"}, {"fromBlock": "pending", "toBlock": "pending"}]
    for criteria in ranges:
        assert node.call("eth_newFilter", criteria).startswith("0x"), criteria
    asked = {"fromBlock": "earliest", "toBlock": "0x2"}
    assert node.call("eth_getFilterLogs", node.call("eth_newFilter", asked)) == node.call("eth_getLogs", asked)
    block = node.call("eth_getBlockByNumber", "latest", False)["hash"]
    assert refusal(node, "eth_newFilter", {"blockHash": block})["code"] == -32602


def test_state_overrides_hold_in_an_estimate(native):
    # PUSH1 1 PUSH1 0 SSTORE STOP, at an address without code.
    code = {CONTRACT: {"code": "0x600160005500"}}
    plain = int(native.call("eth_estimateGas", {"to": CONTRACT, "data": "0x01"}, "latest"), 16)
    pretended = int(native.call("eth_estimateGas", {"to": CONTRACT, "data": "0x01"}, "latest", code), 16)
    assert plain < 22_000 and pretended > 41_000


@pytest.mark.parametrize("profile", ["native", "ethereum"])
def test_receipts_of_an_unknown_block_are_null(request, profile):
    node = request.getfixturevalue(profile)
    assert node.call("eth_getBlockReceipts", "0x" + "ab" * 32) is None
    assert node.call("eth_getBlockReceipts", "0xffffff") is None


def test_calls_run_on_a_chain_that_has_its_genesis_only(fresh):
    assert fresh.call("eth_blockNumber") == "0x0"
    assert fresh.call("eth_call", {"to": CONTRACT}, "latest") == "0x"
    # The voting contract counts its candidates, which are in the genesis.
    candidates = fresh.call("eth_call", {"to": "0x" + "88".rjust(40, "0"), "data": "0xa9a981a3"}, "latest")
    assert int(candidates, 16) > 0
    assert fresh.call("eth_estimateGas", {"to": CONTRACT}) == "0x5208"
    assert fresh.call("eth_createAccessList", {"to": CONTRACT, "gas": "0x5208", "gasPrice": "0x5d21dba00"}, "latest")["accessList"] == []
    assert fresh.call("debug_traceCall", {"to": CONTRACT}, "latest")["failed"] is False


def test_a_node_that_makes_no_blocks_does_not_mine(native):
    assert native.call("eth_mining") is False and native.call("eth_hashrate") == "0x0"


def test_mining_is_the_module_that_makes_blocks():
    with Node("dev") as node:
        assert node.call("eth_mining") is True
        with contextlib.suppress(RpcError):
            node.call("eth_getWork")
        chains.run("module", "disable", "sealing", "--datadir", node.datadir)
        assert node.call("eth_mining") is False


def test_nothing_modified_is_an_empty_list(native):
    head = int(native.call("eth_blockNumber"), 16)
    changes = [native.call("debug_getModifiedAccountsByNumber", number) for number in range(1, head + 1)]
    assert all(isinstance(accounts, list) for accounts in changes)


def is_quantity(value):
    return isinstance(value, str) and value.startswith("0x") and value == hex(int(value, 16))


def test_consensus_answers_have_the_documents_types_and_xdpos_answers_the_references(native):
    def both(method, *params):
        return native.call(f"Consensus_{method}", *params), native.call(f"XDPoS_{method}", *params)

    own, reference = both("getMasternodesByNumber", "latest")
    assert own["Error"] == "" and reference["Error"] is None
    assert is_quantity(own["Number"]) and int(own["Number"], 16) == reference["Number"]
    assert own["MasternodesLen"] == len(own["Masternodes"]) and own["Masternodes"] == reference["Masternodes"]
    own, reference = both("getSnapshot", "latest")
    assert own["votes"] == [] and reference["votes"] is None
    assert sorted(own["signers"]) == list(reference["signers"])
    own, reference = both("getV2BlockByNumber", "latest")
    assert is_quantity(own["Number"]) and is_quantity(own["Round"]) and is_quantity(own["Timestamp"])
    assert int(own["Number"], 16) == reference["Number"] and own["EncodedRLP"] == reference["EncodedRLP"]
    own, reference = both("getEpochNumbersBetween", "0x1", "latest")
    assert [int(number, 16) for number in own] == reference and own
    own, reference = both("getMissedRoundsInEpochByBlockNum", "latest")
    assert isinstance(own["MissedRounds"], list) and int(own["EpochRound"], 16) == reference["EpochRound"]
    own, reference = both("networkInformation")
    assert int(own["NetworkId"], 16) == reference["NetworkId"]
    assert "NativeValidatorAddress" in own and "XDCValidatorAddress" in reference


def test_addresses_in_keys_begin_with_0x_where_aliases_are_off(native):
    keys = native.call("eth_getCandidates", "latest").get("candidates") or {}
    assert all(key.startswith("xdc") for key in keys)
    with chains.prepared("local") as path, chains.node_with(path, "--rpc.aliases=false") as node:
        own = node.call("eth_getCandidates", "latest").get("candidates") or {}
        assert own and all(key.startswith("0x") for key in own)
        assert {key[2:].lower() for key in own} == {key[3:].lower() for key in keys}
