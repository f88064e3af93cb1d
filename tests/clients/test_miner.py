"""The namespace `miner` on the real program."""

import time

import pytest
from eth_account import Account as EthAccount

from tenon_node import DEVELOPMENT_MNEMONIC, Node, RpcError, run
from test_accounts import Socket, refused

ACCOUNTS = ["0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"]
OTHER = "0x00000000000000000000000000000000000000aa"


@pytest.fixture(scope="module")
def node():
    with Node("dev") as running:
        yield running


def sent(ask, **members):
    return ask("eth_sendTransaction", {"from": ACCOUNTS[0], "to": ACCOUNTS[1], "value": "0x1", **members})


def block_of(ask, transaction, timeout=30):
    """The block of a transaction, once it has one."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        receipt = ask("eth_getTransactionReceipt", transaction)
        if receipt is not None:
            return ask("eth_getBlockByHash", receipt["blockHash"], False)
        time.sleep(0.02)
    raise AssertionError("no block within the time")


def test_blocks_are_made_only_while_the_miner_is_started(node):
    with Socket(node) as ask:
        assert ask("miner_stop") is True
        assert ask("admin_moduleInfo", "sealing")["state"] == "disabled"
        assert ask("miner_stop") is True
        waiting = sent(ask)
        assert ask("eth_getTransactionReceipt", waiting) is None

        assert ask("miner_start", 4) is True
        assert ask("miner_start") is True

        block_of(ask, waiting)
        assert ask("miner_getHashrate") == 0


def test_blocks_are_made_with_the_values_that_were_set(node):
    with Socket(node) as ask:
        assert ask("miner_setEtherbase", OTHER) is True
        assert ask("miner_setExtra", "tenon") is True
        assert refused(ask, "miner_setExtra", "x" * 33) == "extra exceeds max length: 33 > 32"
        before = int(ask("eth_getBlockByNumber", "latest", False)["gasLimit"], 16)
        assert ask("miner_setGasLimit", hex(before // 2)) is True

        block = block_of(ask, sent(ask))

        assert (block["miner"], block["extraData"]) == (OTHER, "0x" + b"tenon".hex())
        assert int(block["gasLimit"], 16) < before
        assert ask("eth_coinbase") == OTHER and ask("eth_etherbase") == OTHER


def test_a_higher_price_changes_the_pool_at_once(node):
    with Socket(node) as ask:
        ask("miner_stop")
        cheap = {"maxFeePerGas": hex(10**10), "maxPriorityFeePerGas": hex(10**3)}
        kept = sent(ask, **cheap)
        try:
            assert ask("miner_setGasPrice", hex(10**6)) is True
            assert ask("eth_getTransactionByHash", kept)["hash"] == kept, "the node's own transactions stay"
            with pytest.raises(RpcError, match="transaction underpriced"):
                sent(ask, **cheap)
        finally:
            ask("miner_setGasPrice", "0x1")
            ask("miner_start")
        block_of(ask, kept)


def test_a_node_that_makes_no_blocks_gives_the_reason(tmp_path):
    genesis = tmp_path / "genesis.json"
    with Node("dev", datadir=tmp_path / "dev") as running:
        genesis.write_text((running.datadir / "genesis.json").read_text())
    with Node("run", "--genesis", genesis, datadir=tmp_path / "data") as running, Socket(running) as ask:
        assert refused(ask, "miner_start") == "etherbase missing: etherbase must be explicitly specified"
        ask("miner_setEtherbase", OTHER)
        assert refused(ask, "miner_start") == "signer missing: unknown account"
        ask("miner_setEtherbase", ask("personal_newAccount", "pass"))
        assert refused(ask, "miner_start").startswith("this node makes no blocks of this chain")
        assert ask("miner_stop") is True


def test_the_one_masternode_of_a_network_makes_blocks_without_a_mnemonic(tmp_path):
    """The key of the development network's masternode, path m/44'/60'/1'/0/0, in a key file like any other."""
    genesis, key = tmp_path / "genesis.json", tmp_path / "key"
    with Node("dev", "--profile", "native", datadir=tmp_path / "dev") as running:
        genesis.write_text((running.datadir / "genesis.json").read_text())
    EthAccount.enable_unaudited_hdwallet_features()
    masternode = EthAccount.from_mnemonic(DEVELOPMENT_MNEMONIC, account_path="m/44'/60'/1'/0/0")
    key.write_text(masternode.key.hex())
    (tmp_path / "passwords").write_text("pass\n")
    options = ["--lightkdf", "--password", tmp_path / "passwords"]
    run("account", "import", key, "--datadir", tmp_path / "data", *options)

    with Node("run", "--genesis", genesis, *options, datadir=tmp_path / "data") as running, Socket(running) as ask:
        ask("miner_setEtherbase", OTHER)
        assert refused(ask, "miner_start") == "signer missing: unknown account"
        ask("miner_setEtherbase", masternode.address)
        assert ask("miner_start") is True
        assert ask("eth_blockNumber") == "0x0", "the account is locked"

        ask("personal_unlockAccount", masternode.address, "pass", 0)

        head = wait_for_block(ask, 2)
        assert head["miner"] == masternode.address.lower() and head["validator"] != "0x"
        ask("personal_lockAccount", masternode.address)
        assert ask("miner_stop") is True
        stopped = int(ask("eth_blockNumber"), 16)
    unlocked = ["--unlock", masternode.address]
    with Node("run", "--genesis", genesis, *options, *unlocked, datadir=tmp_path / "data") as running, Socket(running) as ask:
        assert ask("admin_moduleInfo", "sealing")["state"] == "disabled", "it stays stopped over a restart"
        assert ask("miner_start") is True
        assert wait_for_block(ask, stopped + 1)["miner"] == masternode.address.lower()


def wait_for_block(ask, number, timeout=60):
    end = time.monotonic() + timeout
    while int(ask("eth_blockNumber"), 16) < number:
        assert time.monotonic() < end, "no block within the time"
        time.sleep(0.05)
    return ask("eth_getBlockByNumber", hex(number), False)
