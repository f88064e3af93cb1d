"""A foreign plugin (`tests/plugins/intruder`) in the real node: every attempt beyond its grants is refused, and the
node's memory does not grow with answers that it requests and does not read.
"""

import json
import pathlib
import shutil

import pytest

from figures import tell
from tenon_node import BINARY, Node, RpcError, folder

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def node():
    with folder() as path:
        library = path / "intruder.so"
        shutil.copy(BINARY.parent / "libtenon_test_intruder.so", library)
        settings = path / "settings.toml"
        settings.write_text(f'[plugins.intruder]\npath = "{library}"\ncapabilities = ["ReadChain"]\n[plugins.intruder.limits]\nrestarts = 100\n')
        with Node("dev", "--http.api", "eth,intruder", "--config", settings, datadir=path / "data") as running:
            yield running
            assert running.stop() == 0


def resident(node):
    """The node's private memory, bytes."""
    status = pathlib.Path(f"/proc/{node.process.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon:"))


def test_every_attempt_beyond_the_grants_is_refused(node):
    attempts = node.call("intruder_attempts")
    outcomes = {name: node.call("intruder_try", name) for name in attempts if not name.startswith("ReadChain")}
    got_in = {name: outcome for name, outcome in outcomes.items() if not outcome.startswith("refused: ")}
    assert len(outcomes) >= 30
    assert got_in == {}
    head = node.call("eth_blockNumber")
    assert node.call("intruder_forge") is True
    assert node.call("eth_blockNumber") == head
    tell("intruder", "attempts of a foreign plugin beyond its grants", len(outcomes), f"{len(outcomes)} refused, {len(got_in)} got in", "0 get in")


def test_invalid_frames_end_the_plugins_process_and_affect_nothing_else(node):
    for name in node.call("intruder_endings"):
        if name.endswith("for ever"):
            continue
        with pytest.raises(RpcError, match="its process has ended"):
            node.call("intruder_try", name)
        assert node.call("eth_chainId") == "0x7a69"
        while True:
            try:
                node.call("intruder_endings")
                break
            except RpcError as error:
                assert "process has ended" in json.dumps(error.error)


def test_requests_with_unread_answers_take_no_memory(node):
    before = resident(node)
    asked = node.call("intruder_deafen", 3000)
    growth = resident(node) - before
    assert asked > 1000
    assert growth < 64 * MEBIBYTE
    tell("intruder", "questions of a plugin that does not read", asked, f"the node grew by {growth // MEBIBYTE} MiB", "64 MiB")
