"""Folders that a node must not open: used by another node, of another chain, of a newer format. Refused by name,
with exit code 3, in every profile.
"""

import contextlib
import os
import shutil
import struct
import subprocess

import pytest

from figures import tell
from tenon_node import BINARY, DATA, Node, folder, run, unpacked

REFUSED = 3


@contextlib.contextmanager
def development_network(path):
    """The arguments of a node, and the genesis of another chain of the same profile."""
    yield ("dev",), DATA / "execution-apis" / "genesis.json"


@contextlib.contextmanager
def native_chain(path):
    """The same for native chains."""
    genesis = unpacked(DATA / "chain" / "native-genesis-local.json.gz", path / "local.json")
    other = unpacked(DATA / "chain" / "native-genesis-staged.json.gz", path / "staged.json")
    run("import", "--genesis", genesis, "--datadir", path / "data", unpacked(DATA / "native/chains/local.rlp.gz", path / "chain.rlp"))
    yield ("run",), other


@pytest.fixture(params=(development_network, native_chain), ids=lambda kind: kind.__name__)
def kind(request):
    with folder() as path, request.param(path) as (arguments, other):
        yield path / "data", arguments, other


def refused(words, *command):
    """Runs a command that must refuse the folder with this text; returns its output."""
    found = run(*command, check=False)
    assert found.returncode == REFUSED, (found.returncode, found.stderr)
    assert all(word in found.stderr for word in words) and "panicked" not in found.stderr, found.stderr
    return found.stderr.strip()


def test_a_folder_without_permission_is_refused_as_such(kind):
    """As root without the capabilities that ignore permissions."""
    datadir, arguments, _ = kind
    with Node(*arguments, datadir=datadir) as node:
        assert node.stop() == 0
    prefix = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if prefix and shutil.which("setpriv") is None:
        pytest.skip("root without `setpriv` can read everything")
    datadir.chmod(0)
    try:
        for command in (
            (*arguments, "--datadir", datadir),
            ("db", "stats", "--datadir", datadir),
            ("db", "verify", "--datadir", datadir),
            ("export", "--datadir", datadir, datadir.parent / "out.rlp"),
        ):
            found = subprocess.run([*prefix, BINARY, *command], capture_output=True, text=True, timeout=60)
            assert found.returncode == REFUSED, (command, found.returncode, found.stderr)
            assert str(datadir) in found.stderr and "has no permission" in found.stderr, (command, found.stderr)
    finally:
        datadir.chmod(0o700)
    tell("folder", "without permission, by a node and three commands", 4, f"exit code {REFUSED}", "refused by name")


def test_a_second_node_on_a_folder_is_refused(kind):
    datadir, arguments, _ = kind
    with Node(*arguments, datadir=datadir) as node:
        head = node.call("eth_blockNumber")
        for command in (
            (*arguments, "--datadir", datadir, "--http.port", "0", "--ws.port", "0"),
            ("db", "verify", "--datadir", datadir),
            ("db", "unwind", "0", "--datadir", datadir),
            ("export", "--datadir", datadir, datadir.parent / "out.rlp"),
        ):
            words = refused((str(datadir), "in use"), *command)
        assert node.call("eth_blockNumber") == head
        assert node.stop() == 0
    tell("folder", "in use, by a node and four commands", 4, f"exit code {REFUSED}: {words}", "refused by name")


def test_a_folder_of_another_chain_is_refused(kind):
    datadir, arguments, other = kind
    with Node(*arguments, datadir=datadir) as node:
        genesis = node.call("eth_getBlockByNumber", "0x0", False)["hash"]
        assert node.stop() == 0
    words = refused((genesis, "has chain"), "run", "--genesis", other, "--datadir", datadir, "--http.port", "0")
    refused((genesis, "has chain"), "import", "--genesis", other, "--datadir", datadir, DATA / "execution-apis" / "chain.rlp.gz")
    with Node(*arguments, datadir=datadir) as node:
        assert node.call("eth_getBlockByNumber", "0x0", False)["hash"] == genesis
    tell("folder", "of another chain, by run and import", 2, f"exit code {REFUSED}: {words}", "refused by name")


def test_a_folder_with_a_truncated_genesis_copy_is_refused_and_opens_with_the_file(kind):
    datadir, arguments, _ = kind
    with Node(*arguments, datadir=datadir) as node:
        head = node.call("eth_getBlockByNumber", "latest", False)["hash"]
        assert node.stop() == 0
    copy = datadir / "genesis.json"
    whole = copy.read_bytes()
    copy.write_bytes(whole[: len(whole) // 2])
    words = refused((str(copy), "remove this copy"), *arguments, "--datadir", datadir, "--http.port", "0")
    copy.unlink()
    if arguments == ("run",):
        named = datadir.parent / "named.json"
        named.write_bytes(whole)
        arguments = ("run", "--genesis", named)
    with Node(*arguments, datadir=datadir) as node:
        assert node.call("eth_getBlockByNumber", "latest", False)["hash"] == head
        assert node.stop() == 0
    assert copy.read_bytes() == whole
    tell("folder", "with a torn copy of its genesis", 1, f"exit code {REFUSED}: {words}", "refused by name")


def test_a_link_to_nothing_is_named_with_its_target():
    with folder() as path:
        datadir = path / "data"
        datadir.symlink_to(path / "disk")
        for command in (("dev", "--http.port", "0"), ("db", "stats"), ("import", DATA / "execution-apis" / "chain.rlp.gz")):
            words = refused((f"{datadir} is a symbolic link to {path / 'disk'}, which does not exist",), *command, "--datadir", datadir)
        tell("folder", "a symbolic link to nothing", 3, f"exit code {REFUSED}: {words}", "refused by name")


def test_a_pipe_in_place_of_the_genesis_copy_is_refused():
    with folder() as path:
        os.mkfifo(path / "genesis.json")
        for command in ("run", "dev"):
            words = refused((str(path / "genesis.json"), "it is not a regular file"), command, "--datadir", path)
        assert run("account", "list", "--datadir", path, timeout=60).stdout == ""
    tell("folder", "with a pipe in place of its genesis copy", 2, f"exit code {REFUSED}: {words}", "refused by name")


def crc32c(data):
    """Castagnoli's checksum, as in RocksDB's log."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def make_newer(datadir):
    """Raises the format version in the log of a database that was killed before it wrote tables."""
    for log in (datadir / "db").glob("*.log"):
        data = bytearray(log.read_bytes())
        # Name and value of the record, each preceded by its length.
        name = b"\x06format\x04"
        at = data.find(name)
        if at < 0:
            continue
        value = at + len(name)
        data[value : value + 4] = (int.from_bytes(data[value : value + 4], "big") + 1).to_bytes(4, "big")
        # A record in the log: checksum, length, kind, then for some kinds the log's number; none crosses a block of 32 KiB.
        start = 0
        while start < len(data):
            length = struct.unpack_from("<H", data, start + 4)[0]
            head = 11 if 5 <= data[start + 6] <= 8 else 7
            end = start + head + length
            if start < at < end:
                crc = crc32c(data[start + 6 : end])
                struct.pack_into("<I", data, start, ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
                log.write_bytes(data)
                return
            start = end
    raise AssertionError("no log has the format's record")


@pytest.mark.parametrize("profile", ("development network", "native chain"))
def test_a_folder_of_a_newer_format_is_refused(profile):
    with folder() as path:
        datadir = path / "data"
        arguments = ("dev",)
        if profile == "native chain":
            arguments = ("run", "--genesis", unpacked(DATA / "chain" / "native-genesis-local.json.gz", path / "local.json"))
        with Node(*arguments, datadir=datadir) as node:
            node.kill()
        make_newer(datadir)
        before = {file.name: file.stat().st_size for file in (datadir / "db").glob("*.sst")}
        for command in (
            (*arguments, "--datadir", datadir, "--http.port", "0"),
            ("db", "stats", "--datadir", datadir),
            ("export", "--datadir", datadir, path / "out.rlp"),
        ):
            words = refused((str(datadir), "newer release"), *command)
        assert before.keys() <= {file.name for file in (datadir / "db").glob("*.sst")}
        tell("folder", f"of a newer format, {profile}", 3, f"exit code {REFUSED}: {words}", "refused by name")
