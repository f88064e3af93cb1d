"""Metrics in Prometheus' form: its own parser, the real program, and a known number of calls."""

import json
import pathlib
import re
import socket
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tenon_node import ROOT, Node, run

ABSENT = {
    # No engine of a development network finalises; nothing is limited by a plugin's own storage.
    "tenon_finalized_number",
    "tenon_safe_number",
    "tenon_module_storage_bytes",
    # A development network has no peers.
    "tenon_network_bytes_total",
    "tenon_network_messages_total",
}


@pytest.fixture(scope="module")
def node():
    with Node("dev", "--metrics", "--metrics.port", "0") as node:
        yield node


def endpoints(node):
    return json.loads((node.datadir / "endpoints.json").read_text())


def page(node, path=""):
    with urllib.request.urlopen(endpoints(node)["metrics"] + path, timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        return answer.read().decode()


def scrape(node):
    """Values by name and labels."""
    samples = {}
    for family in text_string_to_metric_families(page(node)):
        for sample in family.samples:
            samples[(sample.name, frozenset(sample.labels.items()))] = sample.value
    return samples


def value(samples, name, **labels):
    return samples.get((name, frozenset(labels.items())), 0)


def documented():
    text = (ROOT / "docs" / "metrics.md").read_text()
    return dict(re.findall(r"^\| `([a-z_]+)` \| (counter|gauge|histogram|info) \|", text, re.M))


def module(node, *arguments, check=True):
    return run("module", *arguments, "--datadir", node.datadir, check=check)


def is_open(url):
    host, port = re.match(r"http://([^:/]+):(\d+)/", url).groups()
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def test_every_metric_is_documented_and_every_documented_one_is_shown(node):
    node.call("eth_blockNumber")
    shown = {}
    for family in text_string_to_metric_families(page(node)):
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        shown[family.name + suffix] = family.type

    known = documented()
    assert len(known) > 50
    assert {name: known.get(name) for name in shown} == shown
    assert set(known) - set(shown) == ABSENT


def test_calls_are_counted_by_method_and_transport_with_their_errors_and_times(node):
    before = scrape(node)
    for _ in range(3):
        node.call("eth_blockNumber")
    with pytest.raises(Exception, match="missing value"):
        node.call("eth_getBalance")
    with pytest.raises(Exception, match="does not exist"):
        node.call("eth_nonsense")
    after = scrape(node)

    def grown(name, **labels):
        return value(after, name, **labels) - value(before, name, **labels)

    assert grown("tenon_rpc_requests_total", method="eth_blockNumber", transport="http") == 3
    assert grown("tenon_rpc_requests_total", method="eth_getBalance", transport="http") == 1
    assert grown("tenon_rpc_errors_total", method="eth_getBalance", transport="http") == 1
    assert grown("tenon_rpc_errors_total", method="eth_blockNumber", transport="http") == 0
    assert grown("tenon_rpc_unknown_methods_total", transport="http") == 1
    timed = {"namespace": "eth", "class": "fast", "transport": "http"}
    assert grown("tenon_rpc_duration_seconds_count", **timed) == 4
    assert grown("tenon_rpc_duration_seconds_bucket", le="+Inf", **timed) == 4
    assert grown("tenon_rpc_duration_seconds_sum", **timed) > 0
    assert value(after, "tenon_connections", transport="http") >= 1


def test_the_chain_is_followed(node):
    before = scrape(node)
    sender, receiver = node.call("eth_accounts")[:2]
    number = int(node.call("eth_blockNumber"), 16)
    node.call("eth_sendTransaction", {"from": sender, "to": receiver, "value": "0x1"})
    # A block becomes the head before it is counted.
    counted = value(before, "tenon_gas_committed_total") + 21000
    deadline = time.monotonic() + 60
    while value(after := scrape(node), "tenon_gas_committed_total") < counted:
        assert time.monotonic() < deadline, "no block is counted"

    assert value(after, "tenon_head_number") == number + 1
    assert value(after, "tenon_blocks_committed_total") == value(before, "tenon_blocks_committed_total") + 1
    assert value(after, "tenon_transactions_committed_total") == value(before, "tenon_transactions_committed_total") + 1
    assert value(after, "tenon_gas_committed_total") == counted
    assert value(after, "tenon_commit_duration_seconds_count") == value(after, "tenon_blocks_committed_total")


def test_figures_of_the_process_are_those_of_the_system(node):
    samples = scrape(node)
    process = pathlib.Path(f"/proc/{node.process.pid}")

    status = dict(re.findall(r"^(\w+):\s+(\d+)", (process / "status").read_text(), re.M))
    assert value(samples, "process_resident_memory_bytes") == pytest.approx(int(status["VmRSS"]) * 1024, rel=0.5)
    assert value(samples, "process_threads") == pytest.approx(int(status["Threads"]), abs=8)
    assert value(samples, "process_open_fds") == pytest.approx(len(list((process / "fd").iterdir())), abs=20)


def test_requests_are_counted_while_the_module_is_stopped(node):
    url = endpoints(node)["metrics"]
    before = scrape(node)
    report = json.loads(module(node, "disable", "metrics", "--json").stdout)
    assert report["state"] == "disabled" and not is_open(url)
    assert "metrics" not in endpoints(node)

    node.call("eth_chainId")
    module(node, "enable", "metrics")
    after = scrape(node)

    counted = {"method": "eth_chainId", "transport": "http"}
    timed = {"namespace": "eth", "class": "fast", "transport": "http"}
    requests, durations = "tenon_rpc_requests_total", "tenon_rpc_duration_seconds_count"
    assert value(after, requests, **counted) == value(before, requests, **counted) + 1
    assert value(after, durations, **timed) == value(before, durations, **timed), "calls are not timed while the module is stopped"


def test_a_stopped_module_shows_its_state_and_no_other_metrics(node):
    module(node, "disable", "pool")
    try:
        samples = scrape(node)
        assert value(samples, "tenon_module_state", module="pool", kind="actor", state="disabled") == 1
        assert value(samples, "tenon_module_state", module="pool", kind="actor", state="enabled") == 0
        assert ("tenon_pool_transactions", frozenset({("state", "pending")})) not in samples
    finally:
        module(node, "enable", "pool")
    assert ("tenon_pool_transactions", frozenset({("state", "pending")})) in scrape(node)


def test_nothing_else_is_served_there(node):
    assert page(node, "?x=1").endswith("# EOF\n")
    base = endpoints(node)["metrics"].removesuffix("/metrics")
    with urllib.request.urlopen(base + "/debug/metrics/prometheus", timeout=30) as answer:
        assert answer.read().endswith(b"# EOF\n")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(base + "/", timeout=30)
    assert refused.value.code == 404


def test_metrics_are_off_by_default():
    with Node("dev") as node:
        assert "metrics" not in endpoints(node)
        info = json.loads(module(node, "info", "metrics", "--json").stdout)
        assert (info["state"], info["kind"]) == ("disabled", "actor")
