"""A network of masternodes of this node alone: votes, timeouts, kills (docs/spec/consensus.md 5, 7)."""

import contextlib
import gzip
import json
import re
import urllib.request

import chains
from conftest import NETWORK, enode, run, wait_for
from tenon_node import Node, unpacked


NAMESPACES = ["--http.api", "eth,net,web3,admin,debug,XDPoS", "--auth.namespaces", ""]


def masternodes():
    with gzip.open(chains.CHAINS / "local.keys.json.gz") as file:
        accounts = json.load(file)["accounts"]
    return [account for account in accounts if account["role"] == "genesis masternode"]


def number(node):
    return int(node.call("eth_blockNumber"), 16)


def metrics(node):
    """The values of the node's metrics, by name and labels as they are written."""
    url = json.loads((node.datadir / "endpoints.json").read_text())["metrics"]
    with urllib.request.urlopen(url, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (re.match(r"(\S+) (\S+)", line).groups() for line in lines if line[0] != "#")}


def makers(node, first, last):
    return [node.call("eth_getBlockByNumber", hex(height), False)["miner"].lower() for height in range(first, last)]


def key_file(path, account, mode=0o600):
    path.write_text(account["privateKey"])
    path.chmod(mode)
    return path


def test_four_masternodes_agree_lose_one_and_go_on(tmp_path):
    accounts = masternodes()
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
        wait_for(lambda: number(nodes[0]), lambda height: height >= 18, seconds=90)
        hashes = [node.call("eth_getBlockByNumber", hex(17), False)["hash"] for node in nodes]
        assert len(set(hashes)) == 1, hashes
        assert set(makers(nodes[0], 9, 18)) == {account["address"].lower() for account in accounts}
        finalized = int(nodes[0].call("eth_getBlockByNumber", "finalized", False)["number"], 16)
        assert number(nodes[0]) - finalized <= 4, "three blocks of consecutive rounds commit the first"
        counted = metrics(nodes[0])
        for message in ["Vote", "NewBlock", "Status"]:
            for direction in ["received", "sent"]:
                labels = f'{{message="{message}",direction="{direction}"}}'
                assert counted[f"tenon_network_bytes_total{labels}"] > counted[f"tenon_network_messages_total{labels}"] > 0
        assert counted["tenon_voting_round"] >= 18 and counted["tenon_voting_blocks_total"] >= 3
        for direction in ["received", "sent"]:
            assert counted[f'tenon_voting_messages_total{{kind="vote",direction="{direction}"}}'] > 0
        assert counted["tenon_voting_block_to_vote_seconds_count"] >= 5
        assert counted["tenon_network_bans_total"] == 0

        nodes[3].kill()
        begun = number(nodes[0])
        wait_for(lambda: number(nodes[0]), lambda height: height >= begun + 8, seconds=90)
        assert accounts[3]["address"].lower() not in makers(nodes[0], begun + 2, begun + 8)
        assert metrics(nodes[0])["tenon_voting_failed_rounds_total"] > counted["tenon_voting_failed_rounds_total"]
        # Three of four are the quorum: with two left, the timeouts of a round wait, and are shown.
        nodes[2].kill()
        shown = wait_for(lambda: nodes[0].call("XDPoS_getLatestPoolStatus"), lambda pools: pools["timeout"], seconds=30)
        [(name, members)] = list(shown["timeout"].items())[:1]
        assert accounts[3]["address"].lower() in [address.lower() for address in members["MissingSigners"]], (name, members)
        assert members["CurrentNumber"] == len(members["CurrentSigners"]) > 0
        assert all("STOPS SIGNING" not in node.log_path.read_text(errors="replace") for node in nodes)


def test_a_key_that_signs_elsewhere_stops_this_node_from_signing(tmp_path):
    accounts = masternodes()
    with contextlib.ExitStack() as stack:
        genesis = unpacked(chains.genesis_file("local"), tmp_path / "genesis.json")
        nodes, known = [], []
        # The first key is in two nodes: each sees the signatures of the other.
        for index, account in enumerate([*accounts, accounts[0]]):
            key = key_file(tmp_path / f"key-{index}", account)
            flags = ["--genesis", genesis, *NETWORK, *NAMESPACES, "--masternode.key", key]
            flags += ["--p2p.static", ",".join(known)] if known else []
            nodes.append(stack.enter_context(Node("run", *flags, datadir=tmp_path / f"node-{index}")))
            known.append(enode(nodes[-1]))
        twice = [nodes[0], nodes[4]]
        logs = lambda: [node.log_path.read_text(errors="replace") for node in twice]  # noqa: E731
        wait_for(logs, lambda found: any("STOPS SIGNING" in log for log in found), seconds=90)
        # The network goes on with those that are left.
        begun = number(nodes[1])
        wait_for(lambda: number(nodes[1]), lambda height: height >= begun + 5, seconds=90)


def test_a_key_file_that_others_can_read_and_one_that_is_none_stop_the_start(tmp_path):
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
