"""External files that are truncated, have changed bits, declare wrong lengths or are deeply nested, given to the program:
chain files of both profiles to `import` and `verify-headers`, genesis files and settings files. The program must not
panic, must report the position, and must stay below a fixed memory bound.

TENON_DAMAGED_FILES: variants of each kind (default 6; the full run is 250). TENON_SEED: the seed, printed, to replay a run.
`fuzz/targets/tests/damaged_files.rs` tests the chain file reader alone with 10,000 variants.
"""

import collections
import gzip
import os
import random
import re
import shutil
import time

import pytest
import rlp

from ended import Ended
from figures import tell
from native_chains import items
from tenon_node import DATA, Node, folder, run

VARIANTS = int(os.environ.get("TENON_DAMAGED_FILES", "6"))
SEED = int(os.environ.get("TENON_SEED", str(random.SystemRandom().randrange(2**32))))
# MB more than the same command takes for the intact file; memory of the allocator and the threads varies.
MORE_MEMORY = 32


def damaged(dice, data):
    """A variant: truncated, with a false length, or with some flipped bits."""
    variant = bytearray(data)
    match dice.randrange(6):
        case 0:
            del variant[dice.randrange(len(variant)) :]
        case 1:
            at = dice.randrange(len(variant) - 9)
            variant[at] = dice.choice((0xBF, 0xFF, 0xFB, 0xFA))
            variant[at + 1 : at + 9] = bytes(dice.choice((0xFF, byte)) for byte in variant[at + 1 : at + 9])
        case _:
            for _ in range(dice.randrange(1, 4)):
                bit = dice.randrange(len(variant) * 8)
                variant[bit // 8] ^= 1 << bit % 8
    return bytes(variant)


def nested_lists(levels=100_000):
    """Nested RLP lists."""
    prefixes, length = [], 0
    for _ in range(levels):
        prefix = bytes([0xC0 + length]) if length < 56 else b"\xfb" + length.to_bytes(4, "big")
        prefixes.append(prefix)
        length += len(prefix)
    return b"".join(reversed(prefixes))


def chain(name, most=40_000):
    """The first blocks of a recorded chain."""
    data = gzip.decompress((DATA / name).read_bytes())
    end = 0
    while end < most:
        size = data[end] - 0xF7
        end += 1 + size + int.from_bytes(data[end + 1 : end + 1 + size], "big")
    return data[:end]


def ethereum_chain(path):
    return (
        chain("execution-apis/chain.rlp.gz"),
        lambda file: ("import", "--genesis", DATA / "execution-apis" / "genesis.json", "--datadir", path / "data", file),
        nested_lists(),
        r"block \d+.* byte \d+",
    )


def native_genesis(path):
    genesis = path / "local.json"
    genesis.write_bytes(gzip.decompress((DATA / "chain" / "native-genesis-local.json.gz").read_bytes()))
    return genesis


def native_chain(path):
    genesis = native_genesis(path)
    return (
        chain("native/chains/local.rlp.gz"),
        lambda file: ("import", "--genesis", genesis, "--datadir", path / "data", file),
        nested_lists(),
        r"block \d+.* byte \d+",
    )


def native_headers(path):
    genesis = native_genesis(path)
    return (
        chain("native/chains/local.rlp.gz"),
        lambda file: ("verify-headers", "--network", genesis, file),
        nested_lists(),
        r"(block|header) \d+.* byte \d+",
    )


def header_json(path):
    genesis = native_genesis(path)
    first = chain("native/chains/local.rlp.gz", 1)
    return (
        f'[{{"rlp": "0x{first.hex()}"}}]'.encode(),
        lambda file: ("verify-headers", "--network", genesis, file),
        b"[" * 200_000,
        r"begins at byte \d+|header \d+",
    )


def genesis_file(path):
    data = native_genesis(path).read_bytes()
    return (
        data,
        lambda file: ("genesis", "verify", file),
        b'{"config":' + b'{"a":' * 200_000,
        r"line \d+ column \d+|config|alloc|genesis|block 0|engine|member|chain",
    )


def settings_file(path):
    text = '[http]\nport = 9545\napi = ["eth", "net"]\n[rpc]\ngascap = 7\nevmtimeout = "3s"\n[plugins.eth]\nenabled = true\n'
    return (
        text.encode(),
        lambda file: ("config", "--network", "devnet", "--config", file),
        b"a = " + b"[" * 200_000,
        r":\d+(:\d+)?: |UTF-8",
    )


@pytest.mark.parametrize("kind", (ethereum_chain, native_chain, native_headers, header_json, genesis_file, settings_file), ids=lambda kind: kind.__name__)
def test_a_damaged_file_is_refused_with_its_position_and_little_memory(kind):
    dice = random.Random(SEED)
    with folder() as path:
        whole, command, deep, place = kind(path)
        file = path / "file"

        def ended(data):
            shutil.rmtree(path / "data", ignore_errors=True)
            file.write_bytes(data)
            return Ended(command(file))

        usual = ended(whole)
        assert usual.code == 0, usual.words
        codes, most = collections.Counter(), 0
        variants = [deep, *(damaged(dice, whole) for _ in range(VARIANTS))]
        for number, variant in enumerate(variants):
            found = ended(variant)
            told = f"variant {number} of TENON_SEED={SEED}: {found.code}\n{found.words}"
            assert found.code in (0, 1, 2) and "panicked" not in found.words, told
            # A file that is still valid may be accepted.
            assert found.code == 0 or re.search(place, found.words), told
            assert found.memory < usual.memory + MORE_MEMORY, f"{found.memory:.0f} MB, {told}"
            codes[found.code] += 1
            most = max(most, found.memory)
        assert codes[0] < len(variants), "nothing was refused: the test has shown nothing"
        print(f"\nTENON_SEED={SEED}: variants of {len(whole)} bytes, and {len(deep)} of nesting")
        tell("input", f"the program, {kind.__name__.replace('_', ' ')}", len(variants), f"exit codes {dict(codes)}, panics 0, every "
                     f"refusal names its place; {most:.0f} MB", f"no panic, {MORE_MEMORY} MB more than the whole file's {usual.memory:.0f}")


def test_long_blocks_after_valid_ones_are_not_all_read_ahead():
    """A small file of many long blocks. They wait while those before them are executed, and are never checked."""
    count, length = 400, 1 << 20
    recorded = gzip.decompress((DATA / "execution-apis" / "chain.rlp.gz").read_bytes())
    header, *rest = rlp.decode(list(items(recorded))[-1])
    header[12] = bytes(length)
    long = rlp.encode([header, *rest])
    with folder() as path:
        command = ("import", "--genesis", DATA / "execution-apis" / "genesis.json", "--datadir", path / "data")
        (path / "usual").write_bytes(recorded)
        usual = Ended((*command, path / "usual"))
        assert usual.code == 0, usual.words
        shutil.rmtree(path / "data")
        with gzip.open(path / "long.gz", "wb", compresslevel=1) as file:
            file.write(recorded)
            for _ in range(count):
                file.write(long)
        found = Ended((*command, path / "long.gz"))
    assert found.code == 1 and re.search(r"block \d+.* byte \d+", found.words), found.words
    assert found.memory < usual.memory + 3 * MORE_MEMORY, f"{found.memory:.0f} MB"
    tell("input", "long blocks behind good ones", count, f"exit code 1, {found.memory:.0f} MB", f"{3 * MORE_MEMORY} MB more than without them, {usual.memory:.0f}")


def content_of(path):
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name not in ("LOG", "LOCK")}


def test_a_log_damaged_before_its_end_is_refused_and_not_changed():
    """One changed bit in the middle of the newest log: without the check, RocksDB would drop all later blocks."""
    options = ("--database.durability", "block")
    with folder() as path:
        data = path / "data"
        with Node("dev", *options, datadir=data) as node:
            sender = node.call("eth_accounts")[0]
            for number in range(1, 61):
                node.call("eth_sendTransaction", {"from": sender, "to": sender, "value": "0x1"})
                while int(node.call("eth_blockNumber"), 16) < number:
                    time.sleep(0.01)
            node.kill()
        log = max((data / "db").glob("*.log"))
        content = bytearray(log.read_bytes())
        content[len(content) // 2] ^= 1
        log.write_bytes(content)
        before = content_of(data / "db")

        for command in ("stats", "verify"):
            found = Ended(("db", command, *options, "--datadir", data))
            told = re.search(rf"{log.name}, a log, is damaged at byte (\d+) .* nothing was changed", found.words)
            assert found.code == 3 and told, found.words
            assert content_of(data / "db") == before

        # The documented way to continue without the blocks from there on.
        os.truncate(log, int(told[1]))
        sound = run("db", "verify", "--datadir", data).stdout
        assert 10 < int(re.search(r"sound: (\d+) blocks", sound)[1]) < 60, sound
