"""A network whose masternodes are all nodes of this program: votes, timeouts, kills (docs/spec/consensus.md 5, 7)."""

import contextlib
import gzip
import json
import re
import time
import urllib.request

import chains
from conftest import NETWORK, enode, run, wait_for
from signing_service import SigningService
from tenon_node import Node, RpcError, unpacked


NAMESPACES = ["--http.api", "eth,net,web3,admin,debug,XDPoS", "--auth.namespaces", ""]


def masternodes():
    with gzip.open(chains.CHAINS / "local.keys.json.gz") as file:
        accounts = json.load(file)["accounts"]
    return [account for account in accounts if account["role"] == "genesis masternode"]


def number(node):
    return int(node.call("eth_blockNumber"), 16)


def metrics(node):
    """The values of the node's metrics, by name and labels as printed."""
    url = json.loads((node.datadir / "endpoints.json").read_text())["metrics"]
    with urllib.request.urlopen(url, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (re.match(r"(\S+) (\S+)", line).groups() for line in lines if line[0] != "#")}


def finalized(node):
    """Height of the last committed block; 0 before the first."""
    try:
        return int(node.call("eth_getBlockByNumber", "finalized", False)["number"], 16)
    except RpcError:
        return 0


def last_makers(node, count):
    """The makers of the last blocks."""
    head = number(node)
    blocks = [node.call("eth_getBlockByNumber", hex(height), False) for height in range(max(1, head - count + 1), head + 1)]
    return {block["miner"].lower() for block in blocks if block}


def waiting_without(node, signer):
    """The collected timeouts of a round without this signer's; `None` if there are none."""
    pools = node.call("XDPoS_getLatestPoolStatus")["timeout"].values()
    return next((pool for pool in pools if signer in [address.lower() for address in pool["MissingSigners"]]), None)


def signer_of(account):
    return account["address"].lower()


def key_file(path, account, mode=0o600):
    path.write_text(account["privateKey"])
    path.chmod(mode)
    return path


def test_four_masternodes_agree_lose_one_and_continue(tmp_path):
    accounts = masternodes()
    signers = {signer_of(account) for account in accounts}
    with contextlib.ExitStack() as stack:
        genesis = unpacked(chains.genesis_file("local"), tmp_path / "genesis.json")
        nodes, known = [], []
        for index, account in enumerate(accounts):
            key = key_file(tmp_path / f"key-{index}", account)
            flags = ["--genesis", genesis, *NETWORK, *NAMESPACES, "--masternode.key", key, "--metrics", "--metrics.port", "0"]
            if known:
                flags += ["--p2p.static", ",".join(known)]
            nodes.append(stack.enter_context(Node("run", *flags, datadir=tmp_path / f"node-{index}")))
            known.append(enode(nodes[-1]))
        # A node that takes long to start joins some rounds later. Waits until all four have made one of the last eight
        # blocks.
        wait_for(lambda: last_makers(nodes[0], 8), lambda found: found == signers, seconds=120)
        # Three blocks of consecutive rounds commit the first of them. On a busy machine some rounds may fail for a
        # while.
        wait_for(lambda: number(nodes[0]) - finalized(nodes[0]), lambda distance: distance <= 4, seconds=60)
        committed = finalized(nodes[0])
        for node in nodes:
            wait_for(lambda node=node: finalized(node), lambda height: height >= committed)
        hashes = {node.call("eth_getBlockByNumber", hex(committed), False)["hash"] for node in nodes}
        assert len(hashes) == 1, hashes
        counted = metrics(nodes[0])
        for message in ["Vote", "NewBlock", "Status"]:
            for direction in ["received", "sent"]:
                labels = f'{{message="{message}",direction="{direction}"}}'
                assert counted[f"tenon_network_bytes_total{labels}"] > counted[f"tenon_network_messages_total{labels}"] > 0
        assert counted["tenon_voting_round"] >= committed and counted["tenon_voting_blocks_total"] > 0
        for direction in ["received", "sent"]:
            assert counted[f'tenon_voting_messages_total{{kind="vote",direction="{direction}"}}'] > 0
        assert counted["tenon_voting_block_to_vote_seconds_count"] > 0
        assert counted["tenon_network_bans_total"] == 0

        nodes[3].kill()
        begun = number(nodes[0])
        wait_for(lambda: number(nodes[0]), lambda height: height >= begun + 8, seconds=120)
        # A block that the killed node made may still be in transit.
        wait_for(lambda: last_makers(nodes[0], 6), lambda found: found == signers - {signer_of(accounts[3])}, seconds=60)
        assert metrics(nodes[0])["tenon_voting_failed_rounds_total"] > counted["tenon_voting_failed_rounds_total"]
        # Three of four are the quorum: with two running nodes, the timeouts of a round are collected and stay visible.
        nodes[2].kill()
        members = wait_for(lambda: waiting_without(nodes[0], signer_of(accounts[2])), bool, seconds=60)
        assert members["CurrentNumber"] == len(members["CurrentSigners"]) > 0
        assert all("SIGNING STOPPED" not in node.log_path.read_text(errors="replace") for node in nodes)

        # A voting record belongs to its key: the own key signs at once after a restart, another one listens first.
        for index, account, expected in [(2, accounts[2], "is enabled"), (3, accounts[0], "no voting record for this key")]:
            key_file(tmp_path / f"key-{index}", account)
            before = nodes[index].log_path.stat().st_size
            flags = ["--genesis", genesis, *NETWORK, *NAMESPACES, "--masternode.key", tmp_path / f"key-{index}"]
            node = stack.enter_context(Node("run", *flags, datadir=tmp_path / f"node-{index}"))
            began = lambda: next((line for line in lines_after(node, before) if "masternode=" in line), None)  # noqa: B023, E731
            assert expected in wait_for(began, bool, seconds=30)
            node.kill()


def lines_after(node, offset):
    """The lines of a node's log that follow its first bytes."""
    with open(node.log_path, errors="replace") as log:
        log.seek(offset)
        return log.read().splitlines()


def test_a_key_used_by_another_node_stops_this_node_from_signing(tmp_path):
    accounts = masternodes()
    with contextlib.ExitStack() as stack:
        genesis = unpacked(chains.genesis_file("local"), tmp_path / "genesis.json")
        nodes, known = [], []
        # Two nodes have the first key, and each sees the other's signatures.
        for index, account in enumerate([*accounts, accounts[0]]):
            key = key_file(tmp_path / f"key-{index}", account)
            flags = ["--genesis", genesis, *NETWORK, *NAMESPACES, "--masternode.key", key]
            flags += ["--p2p.static", ",".join(known)] if known else []
            nodes.append(stack.enter_context(Node("run", *flags, datadir=tmp_path / f"node-{index}")))
            known.append(enode(nodes[-1]))
        twice = [nodes[0], nodes[4]]
        logs = lambda: [node.log_path.read_text(errors="replace") for node in twice]  # noqa: E731
        wait_for(logs, lambda found: any("SIGNING STOPPED" in log for log in found), seconds=90)
        # The network continues with the remaining masternodes.
        begun = number(nodes[1])
        wait_for(lambda: number(nodes[1]), lambda height: height >= begun + 5, seconds=90)


def test_a_key_file_that_is_invalid_or_that_others_can_read_prevents_the_start(tmp_path):
    genesis = unpacked(chains.genesis_file("local"), tmp_path / "genesis.json")
    exposed = key_file(tmp_path / "exposed", masternodes()[0], 0o644)
    nothing = tmp_path / "nothing"
    nothing.write_text("no key")
    nothing.chmod(0o600)
    for path, reason in [(exposed, "others can read it (mode 644)"), (nothing, "not 64 hexadecimal digits")]:
        flags = ["--genesis", genesis, "--datadir", tmp_path / "data", "--masternode.key", path]
        failed = run("run", *flags, check=False)
        told = failed.stderr + failed.stdout
        told = told if isinstance(told, str) else told.decode()
        assert failed.returncode == 2 and reason in told, told
        assert masternodes()[0]["privateKey"][2:] not in told


def test_a_key_in_the_keystore_votes_once_its_account_is_unlocked(tmp_path):
    accounts = masternodes()
    with contextlib.ExitStack() as stack:
        genesis = unpacked(chains.genesis_file("local"), tmp_path / "genesis.json")
        (tmp_path / "password").write_text("for this test")
        in_wallet = signer_of(accounts[0])
        nodes, known = [], []
        for index, account in enumerate(accounts[:3]):
            key, datadir = key_file(tmp_path / f"key-{index}", account), tmp_path / f"node-{index}"
            flags = ["--genesis", genesis, *NETWORK, *NAMESPACES]
            if index == 0:
                common = ["--datadir", datadir, "--lightkdf", "--password", tmp_path / "password"]
                run("account", "import", key, *common)
                key.unlink()
                flags += ["--masternode.account", in_wallet, "--unlock", in_wallet, "--password", tmp_path / "password"]
            else:
                flags += ["--masternode.key", key]
            flags += ["--p2p.static", ",".join(known)] if known else []
            nodes.append(stack.enter_context(Node("run", *flags, datadir=datadir)))
            known.append(enode(nodes[-1]))
        # Three of four are the quorum, so the network needs this node.
        signers = {signer_of(account) for account in accounts[:3]}
        wait_for(lambda: last_makers(nodes[1], 6), lambda found: found == signers, seconds=120)
        wait_for(lambda: finalized(nodes[1]), bool, seconds=60)


VALIDATOR_POLICY = """
version = 1

[[rules]]
name = "consensus"
outcome = "allow"
kinds = ["seal", "vote", "timeout"]
clients = ["node"]
accounts = "any"
chains = [5151]

[[rules]]
name = "signing transactions"
outcome = "allow"
kinds = ["transaction"]
clients = ["node"]
accounts = "any"
chains = [5151]
recipients = ["0x0000000000000000000000000000000000000089"]
functions = ["0xe341eaa4"]
max-value = "0 wei"
max-fee = "0 wei"
replace = true
"""


def test_a_key_in_the_signing_service_votes_pauses_with_the_service_and_goes_on(tmp_path):
    accounts = masternodes()
    with contextlib.ExitStack() as stack:
        genesis = unpacked(chains.genesis_file("local"), tmp_path / "genesis.json")
        (tmp_path / "signer").mkdir()
        in_service = signer_of(accounts[0])
        settings = f'[validators]\n"{in_service}" = 5151\n[clients.node]\nsocket = "node.sock"\n'
        keys = {accounts[0]["address"]: accounts[0]["privateKey"]}
        service = stack.enter_context(SigningService(tmp_path / "signer", VALIDATOR_POLICY, settings, keys=keys))
        nodes, known = [], []
        for index, account in enumerate(accounts[:3]):
            flags = ["--genesis", genesis, *NETWORK, *NAMESPACES]
            if index == 0:
                flags += ["--masternode.signer", in_service, "--signer", service.place / "node.sock"]
            else:
                flags += ["--masternode.key", key_file(tmp_path / f"key-{index}", account)]
            flags += ["--p2p.static", ",".join(known)] if known else []
            nodes.append(stack.enter_context(Node("run", *flags, datadir=tmp_path / f"node-{index}")))
            known.append(enode(nodes[-1]))
        log = lambda: nodes[0].log_path.read_text(errors="replace")  # noqa: E731
        # Three of four are the quorum, so the network needs this node. Its own blocks have its seal.
        signers = {signer_of(account) for account in accounts[:3]}
        wait_for(lambda: last_makers(nodes[1], 6), lambda found: found == signers, seconds=120)
        wait_for(lambda: finalized(nodes[1]), bool, seconds=60)
        # Its signing transaction for a fifteenth block.
        wait_for(lambda: int(nodes[1].call("eth_getTransactionCount", in_service, "latest"), 16), bool, seconds=90)

        assert service.stop() == 0
        wait_for(log, lambda text: "THIS NODE SIGNS NOTHING" in text, seconds=60)
        # A block that the service signed before may still arrive.
        time.sleep(3)
        begun = number(nodes[0])
        time.sleep(6)
        assert number(nodes[0]) == begun == number(nodes[1]), "no quorum without the service"
        assert nodes[0].call("net_peerCount") == "0x2"

        service.start()
        wait_for(lambda: number(nodes[1]), lambda height: height >= begun + 5, seconds=120)
        wait_for(lambda: last_makers(nodes[1], 6), lambda found: found == signers, seconds=120)
        assert "the signing service answers" in log() and "SIGNING STOPPED" not in log()
        assert any("signed" in json.dumps(step).lower() for step in service.steps())


def test_a_masternode_of_the_signing_service_needs_its_address_and_the_service(tmp_path):
    genesis = unpacked(chains.genesis_file("local"), tmp_path / "genesis.json")
    key = key_file(tmp_path / "key", masternodes()[0])
    for flags, reason in [
        (["--masternode.signer", signer_of(masternodes()[0])], "name the signing service in signer.url"),
        (["--masternode.signer", "0x12", "--signer", tmp_path / "socket"], "is not an address of 40 hexadecimal digits"),
        (["--masternode.signer", signer_of(masternodes()[0]), "--masternode.key", key], "a node signs with one key"),
    ]:
        failed = run("run", "--genesis", genesis, "--datadir", tmp_path / "data", *flags, check=False)
        told = failed.stderr + failed.stdout
        told = told if isinstance(told, str) else told.decode()
        assert failed.returncode == 2 and reason in told, told
