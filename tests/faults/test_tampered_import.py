"""Blocks of the recorded native chains with one change, given to `tenon import`: it exits with code 1, reports the block
and the reason, and the head is the preceding block.

`modules/native/consensus/src/tampering.rs` changes every field of every kind of header. This file tests one change of
each kind and each reason through the whole program. `signed` describes how changed headers are signed again.
"""

import hashlib

import pytest
import rlp
from eth_keys import keys
from eth_utils import keccak

from figures import tell
from native_chains import Recorded, head
from tenon_node import folder, run

# Positions of the items in a header (`docs/spec/chain.md` 1.1).
PARENT, UNCLES, COINBASE, STATE, TRANSACTIONS, RECEIPTS, BLOOM, DIFFICULTY, NUMBER = range(9)
GAS_LIMIT, GAS_USED, TIME, EXTRA, MIX, NONCE, VALIDATORS, VALIDATOR, PENALTIES, BASE_FEE = range(9, 19)
KEYS = [keys.PrivateKey(hashlib.sha256(f"tenon-golden-{number}".encode()).digest()) for number in range(30)]
BY_ADDRESS = {key.public_key.to_canonical_address(): key for key in KEYS}
SEAL = 65


def seal_hash(header, is_v2):
    """Digests signed by seals (`docs/spec/consensus.md` 1.2)."""
    extra = header[EXTRA] if is_v2 else header[EXTRA][:-SEAL]
    items = header[:EXTRA] + [extra, header[MIX], header[NONCE]]
    items += [header[VALIDATORS], header[PENALTIES]] if is_v2 else []
    return keccak(rlp.encode(items + header[BASE_FEE:]))


def signer(header, signature, is_v2):
    public = keys.Signature(signature).recover_public_key_from_msg_hash(seal_hash(header, is_v2))
    return BY_ADDRESS[public.to_canonical_address()]


def sign(header, key, is_v2):
    return key.sign_msg_hash(seal_hash(header, is_v2)).to_bytes()


def resealed(header, change, is_v2):
    """The changed header, signed again by its signers."""
    header = list(header)
    creator = signer(header, header[VALIDATOR] if is_v2 else header[EXTRA][-SEAL:], is_v2)
    second = signer(header, header[VALIDATOR], False) if header[VALIDATOR] and not is_v2 else None
    change(header)
    if is_v2:
        header[VALIDATOR] = sign(header, creator, True)
        return header
    header[EXTRA] = header[EXTRA][:-SEAL] + sign(header, creator, False)
    if second is not None:
        header[VALIDATOR] = sign(header, second, False)
    return header


def flip(place, index=0):
    def change(header):
        item = bytearray(header[place])
        item[index] ^= 1
        header[place] = bytes(item)

    return change


def put(place, item):
    def change(header):
        header[place] = item

    return change


def certificate(change):
    """Changes round, block, signatures or gap number of a v2 header's extra data."""

    def whole(header):
        round_number, quorum = rlp.decode(header[EXTRA][1:])
        quorum = list(quorum)
        quorum[1] = list(quorum[1])
        changed = change(round_number, quorum)
        header[EXTRA] = b"\x02" + rlp.encode([round_number if changed is None else changed, quorum])

    return whole


def high_s(header):
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    good = header[VALIDATOR]
    mirrored = order - int.from_bytes(good[32:64], "big")
    header[VALIDATOR] = good[:32] + mirrored.to_bytes(32, "big") + bytes([good[64] ^ 1])


def by_stranger(header):
    header[VALIDATOR] = sign(header, KEYS[29], True)


def swapped_seals(header):
    header[EXTRA], header[VALIDATOR] = header[EXTRA][:-SEAL] + header[VALIDATOR], header[EXTRA][-SEAL:]


def one_signature_less(_, quorum):
    quorum[1] = quorum[1][:2]


def one_signature_twice(_, quorum):
    quorum[1] = quorum[1][:2] + quorum[1][:1]


def a_stranger_among_the_signers(_, quorum):
    quorum[1] = quorum[1][:2] + [KEYS[29].sign_msg_hash(keccak(rlp.encode([quorum[0], quorum[2]]))).to_bytes()]


def gap_number(_, quorum):
    wrong = [quorum[0], rlp.encode(7)[-1:]]
    quorum[2] = wrong[1]
    quorum[1] = [key.sign_msg_hash(keccak(rlp.encode(wrong))).to_bytes() for key in KEYS[:4]]


def round_of_the_certified(_, quorum):
    return quorum[0][1]


def next_round(round_number, _):
    return (int.from_bytes(round_number, "big") + 1).to_bytes(2, "big").lstrip(b"\0")


STRANGER = "validator address is not in the master node list"
ROOT = "state root"

# Chain, block, field, change, whether it is signed again, the error.
CASES = [
    ("v1switch", 500, "parent of a v1 block", flip(PARENT), True, "is not known"),
    ("v1switch", 500, "difficulty of a v1 block", put(DIFFICULTY, b"\x01"), True, "invalid difficulty"),
    ("v1switch", 500, "state root of a v1 block", flip(STATE), True, ROOT),
    ("v1switch", 900, "list of a v1 checkpoint", lambda header: header.__setitem__(EXTRA, header[EXTRA][:32] + header[EXTRA][52:]), True, "invalid signer list on checkpoint block"),
    ("v1switch", 900, "pairs of a v1 checkpoint", flip(VALIDATORS, 3), True, "invalid validators list on checkpoint block"),
    ("v1switch", 900, "penalties of a v1 checkpoint", put(PENALTIES, bytes(20)), True, "invalid penalty list on checkpoint block"),
    ("v1switch", 900, "beneficiary of a v1 checkpoint", flip(COINBASE), True, "beneficiary in checkpoint block non-zero"),
    ("v1switch", 901, "second signature, the first block with one", put(VALIDATOR, b""), False, "no validator in header"),
    ("v1switch", 1010, "seals of a v1 block, swapped", swapped_seals, False, "invalid difficulty"),
    ("v1switch", 1800, "rewards of a v1 checkpoint", flip(STATE), True, ROOT),
    ("v1switch", 1801, "masternodes of the first v2 block", flip(VALIDATORS), True, "validators does not match what's stored in snapshot minus its penalty"),
    ("v1switch", 1801, "penalties of the first v2 block", put(PENALTIES, bytes(20)), True, "penalties does not match"),
    ("v1switch", 1801, "gap number of the first v2 block", certificate(lambda _, quorum: quorum.__setitem__(2, b"\x07")), True, "gap number mismatch QC Gap 7, shouldBe 1350"),
    ("v1switch", 1801, "seal of the first v2 block", high_s, False, "invalid signature"),
    ("v1switch", 1802, "quorum of the second v2 block", certificate(one_signature_less), True, "invalid QC Signatures"),
    ("v1switch", 2700, "rewards of an epoch switch", flip(STATE), True, ROOT),
    ("local", 1, "difficulty of a first v2 block on block 0", put(DIFFICULTY, b"\x02"), True, "invalid difficulty"),
    ("local", 100, "beneficiary", flip(COINBASE), False, STRANGER),
    ("local", 100, "beneficiary, signed", flip(COINBASE), True, "validator and coinbase address in header does not match"),
    ("local", 100, "a stranger's seal", by_stranger, False, STRANGER),
    ("local", 100, "transactions root", flip(TRANSACTIONS), True, "transaction root hash mismatch"),
    ("local", 100, "receipts root", flip(RECEIPTS), True, "receipt"),
    ("local", 100, "bloom", flip(BLOOM), True, "bloom"),
    ("local", 100, "gas used", put(GAS_USED, b"\x01"), True, "gas used"),
    ("local", 100, "gas limit", put(GAS_LIMIT, (10_000).to_bytes(2, "big")), True, "invalid gas limit: have 10000"),
    ("local", 100, "time", put(TIME, b"\x01"), True, "invalid timestamp"),
    ("local", 100, "mix digest", flip(MIX), True, "non-zero mix digest"),
    ("local", 100, "uncles", flip(UNCLES), True, "non empty uncle hash"),
    ("local", 100, "nonce", flip(NONCE), True, "vote nonce not 0x00..0 or 0xff..f"),
    ("local", 100, "base fee", put(BASE_FEE, b"\x01"), True, "invalid baseFee: have 1, want 12500000000"),
    ("local", 100, "lists in an ordinary block", put(PENALTIES, bytes(20)), True, "invalid field exist in a non-epoch swtich block"),
    ("local", 100, "a signature twice", certificate(one_signature_twice), True, "invalid QC Signatures"),
    ("local", 100, "a stranger's vote", certificate(a_stranger_among_the_signers), True, "fail to verify QC due to signature mis-match"),
    ("local", 100, "gap number", certificate(gap_number), True, "gap number mismatch QC Gap 7, shouldBe 30"),
    ("local", 100, "round not above the certified", certificate(round_of_the_certified), True, "invalid Round, it shall be bigger than QC round"),
    ("local", 122, "round after one that failed", certificate(next_round), True, "not validator's turn to mine this block"),
    ("local", 168, "no penalty at an epoch switch", put(PENALTIES, b""), True, "penalties does not match"),
    ("local", 168, "no masternodes at an epoch switch", put(VALIDATORS, b""), True, "empty validators list on epoch switch block"),
    ("local", 169, "lists after an epoch switch", put(VALIDATORS, bytes(20)), True, "invalid field exist in a non-epoch swtich block"),
]


@pytest.mark.parametrize("name", ["v1switch", "local"])
def test_an_import_ends_at_a_changed_block_with_the_reason(name):
    with folder() as path:
        recorded, datadir, part = Recorded(name, path), path / "data", path / "part.rlp"
        cases = [case for case in CASES if case[0] == name]
        for _, number, what, change, is_signed_again, said in cases:
            part.write_bytes(b"".join(recorded.blocks[:number]))
            run("import", "--genesis", recorded.genesis, "--datadir", datadir, part)
            block = rlp.decode(recorded.blocks[number])
            header = list(block[0])
            is_v2 = header[EXTRA][:1] == b"\x02"
            if is_signed_again:
                header = resealed(header, change, is_v2)
            else:
                change(header)
            part.write_bytes(rlp.encode([header, *block[1:]]))
            done = run("import", "--datadir", datadir, part, check=False)
            place = f"{what} ({name} {number}): {done.stderr[-400:]}"
            assert done.returncode == 1 and said in done.stderr, place
            if header[NUMBER] == block[0][NUMBER]:
                assert str(number) in done.stderr, place
            found = head(datadir)
            assert (found["number"], found["hash"]) == (number - 1, recorded.lines[number - 1]["hash"]), place
        # The refusal left no trace: the original block is still accepted.
        run("import", "--datadir", datadir, recorded.file)
        run("db", "verify", "--datadir", datadir)
        assert head(datadir)["hash"] == recorded.lines[recorded.last]["hash"]
        tell("input", f"blocks of the native chain {name}, signed again", len(cases), "all refused with block and reason, then the whole "
                     "chain taken", "none taken")
