//! Changes to every field, for each rule on it.

use alloy_primitives::{B64, Bloom, Bytes, hex};
use tenon_api::{Header, U256};

use super::{
    ACCEPTED, COINBASE, EXTRA, Kind, LISTS, MASTERNODES, NO_ANCESTOR, NOT_NATIVE, STRANGER, V2EpochSwitch, kinds,
    seal_of,
};

type Change = fn(&mut Header);

/// The change; whether v1's seals cover it; for each class, the error after the header is signed again.
type Row = (&'static str, Change, bool, [&'static str; 4]);

/// Every item of a header, in order, changed once for each rule on it. Changes that are accepted here are either
/// checked by execution (roots, bloom, gas used) or allowed.
const FIELDS: [Row; 37] = [
    ("parent hash", |header| header.parent_hash.0[0] ^= 1, true, [NO_ANCESTOR; 4]),
    ("uncle hash", |header| header.ommers_hash.0[0] ^= 1, true, ["non empty uncle hash"; 4]),
    (
        "beneficiary",
        |header| header.beneficiary.0[0] ^= 1,
        true,
        [ACCEPTED, "beneficiary in checkpoint block non-zero", COINBASE, COINBASE],
    ),
    ("state root", |header| header.state_root.0[0] ^= 1, true, [ACCEPTED; 4]),
    ("transactions root", |header| header.transactions_root.0[0] ^= 1, true, [ACCEPTED; 4]),
    ("receipts root", |header| header.receipts_root.0[0] ^= 1, true, [ACCEPTED; 4]),
    ("bloom", |header| header.logs_bloom = Bloom::repeat_byte(1), true, [ACCEPTED; 4]),
    ("difficulty up", |header| header.difficulty += U256::ONE, true, ["invalid difficulty"; 4]),
    ("difficulty down", |header| header.difficulty -= U256::ONE, true, ["invalid difficulty"; 4]),
    (
        "number",
        |header| header.number -= 1,
        true,
        [NO_ANCESTOR, "non-checkpoint block contains extra signer list", NO_ANCESTOR, NO_ANCESTOR],
    ),
    ("gas limit", |header| header.gas_limit += 1, true, [ACCEPTED; 4]),
    (
        "gas limit far up",
        |header| header.gas_limit += header.gas_limit / 1_024,
        true,
        [
            ACCEPTED,
            ACCEPTED,
            "invalid gas limit: have 50048828, want 50000000 +-= 48827",
            "invalid gas limit: have 50048828, want 50000000 +-= 48827",
        ],
    ),
    (
        "gas limit far down",
        |header| header.gas_limit -= header.gas_limit / 1_024,
        true,
        [
            ACCEPTED,
            ACCEPTED,
            "invalid gas limit: have 49951172, want 50000000 +-= 48827",
            "invalid gas limit: have 49951172, want 50000000 +-= 48827",
        ],
    ),
    ("gas used", |header| header.gas_used += 1, true, [ACCEPTED; 4]),
    (
        "gas used beyond the limit",
        |header| header.gas_used = 50_000_001,
        true,
        [
            ACCEPTED,
            ACCEPTED,
            "gas used exceeded gaslimit, gas used: 50000001, gas limit: 50000000",
            "gas used exceeded gaslimit, gas used: 50000001, gas limit: 50000000",
        ],
    ),
    ("later", |header| header.timestamp += 1, true, [ACCEPTED; 4]),
    ("much later", |header| header.timestamp = u64::MAX, true, ["block in the future"; 4]),
    ("earlier", |header| header.timestamp -= 1_000, true, ["invalid timestamp"; 4]),
    (
        "no extra data",
        |header| header.extra_data = Bytes::new(),
        true,
        ["extra-data 32 byte vanity prefix missing", "extra-data 32 byte vanity prefix missing", EXTRA, EXTRA],
    ),
    (
        "short extra data",
        |header| header.extra_data = header.extra_data.slice(..header.extra_data.len() - 1),
        true,
        ["extra-data 65 byte suffix signature missing", "invalid signer list on checkpoint block", EXTRA, EXTRA],
    ),
    (
        "long extra data",
        |header| header.extra_data = [&header.extra_data[..], &[0]].concat().into(),
        true,
        ["non-checkpoint block contains extra signer list", "invalid signer list on checkpoint block", EXTRA, EXTRA],
    ),
    (
        "first byte of the extra data",
        |header| header.extra_data = [&[header.extra_data[0] ^ 1], &header.extra_data[1..]].concat().into(),
        true,
        [ACCEPTED, ACCEPTED, EXTRA, EXTRA],
    ),
    (
        "a masternode left out",
        |header| {
            header.extra_data =
                [&header.extra_data[..32], header.extra_data.get(52..).unwrap_or_default()].concat().into()
        },
        true,
        ["extra-data 65 byte suffix signature missing", "invalid signer list on checkpoint block", EXTRA, EXTRA],
    ),
    ("mix digest", |header| header.mix_hash.0[31] = 1, true, ["non-zero mix digest"; 4]),
    ("nonce", |header| header.nonce = B64::with_last_byte(1), true, ["vote nonce not 0x00..0 or 0xff..f"; 4]),
    (
        "vote",
        |header| header.nonce = B64::repeat_byte(0xff),
        true,
        [ACCEPTED, "vote nonce in checkpoint block non-zero", ACCEPTED, "vote nonce in checkpoint block non-zero"],
    ),
    ("no native items", |header| header.native_seal = None, false, [NOT_NATIVE; 4]),
    (
        "no validators",
        |header| seal_of(header).validators = Bytes::new(),
        false,
        [
            ACCEPTED,
            "invalid validators list on checkpoint block",
            ACCEPTED,
            "empty validators list on epoch switch block",
        ],
    ),
    (
        "other validators",
        |header| seal_of(header).validators = [9; 20].into(),
        false,
        [ACCEPTED, "invalid validators list on checkpoint block", LISTS, MASTERNODES],
    ),
    (
        "half a validator more",
        |header| seal_of(header).validators = [&seal_of(header).validators[..], &[9; 10]].concat().into(),
        false,
        [ACCEPTED, "invalid validators list on checkpoint block", LISTS, "invalid signer list on checkpoint block"],
    ),
    (
        "a validator twice",
        |header| {
            seal_of(header).validators =
                [&seal_of(header).validators[..], &hex!("29bb8adaaec585b4d437e1997a4ba60bde226f13")].concat().into()
        },
        false,
        [ACCEPTED, "invalid validators list on checkpoint block", LISTS, MASTERNODES],
    ),
    (
        "no validator",
        |header| seal_of(header).validator = Bytes::new(),
        false,
        ["SECOND", "SECOND", "AUTHOR", "AUTHOR"],
    ),
    (
        "a penalty more",
        |header| seal_of(header).penalties = [&seal_of(header).penalties[..], &[9; 20]].concat().into(),
        false,
        [ACCEPTED, "invalid penalty list on checkpoint block", LISTS, "penalties does not match"],
    ),
    (
        "half a penalty more",
        |header| seal_of(header).penalties = [&seal_of(header).penalties[..], &[9; 10]].concat().into(),
        false,
        [ACCEPTED, "invalid penalty list on checkpoint block", LISTS, ACCEPTED],
    ),
    ("no base fee", |header| header.base_fee_per_gas = None, true, ["header is missing baseFee"; 4]),
    ("base fee", |header| header.base_fee_per_gas = Some(1), true, ["invalid baseFee: have 1, want 12500000000"; 4]),
    (
        "base fee of nothing",
        |header| header.base_fee_per_gas = Some(0),
        true,
        ["invalid baseFee: have 0, want 12500000000"; 4],
    ),
];

/// Kinds that differ from their class: the first v2 header with a number lowered by one counts as a v1 header and a
/// checkpoint, and a child of the genesis block may have any gas limit (`docs/spec/upgrades.md` 6).
fn exception(kind: &Kind, change: &str) -> Option<&'static str> {
    if (kind.number, kind.class) == (1, V2EpochSwitch) && change.starts_with("gas limit far ") {
        return Some(ACCEPTED);
    }
    let is_first_of_v2 = change == "number" && matches!((kind.number, kind.class), (1 | 1_801, V2EpochSwitch));
    is_first_of_v2.then_some("beneficiary in checkpoint block non-zero")
}

#[test]
fn every_field_of_every_kind_of_header_is_protected_by_a_rule_or_a_seal() {
    let mut checked = 0;
    for kind in kinds() {
        let engine = kind.engine();
        assert_eq!(kind.verdict(&engine, kind.header()), ACCEPTED, "{}", kind.name);
        for (change_name, change, is_sealed_in_v1, by_class) in FIELDS {
            let place = format!("{change_name}: {} ({})", kind.name, kind.number);
            let mut header = kind.header().header().clone();
            change(&mut header);
            let wanted = exception(&kind, change_name).unwrap_or(by_class[kind.class as usize]);
            let alone = kind.verdict(&engine, &tenon_chain::seal(header.clone()));
            checked += 1;
            if matches!(wanted, "SECOND" | "AUTHOR") {
                let missing = match wanted {
                    "AUTHOR" => "no validator in v2 header",
                    _ if kind.number > 900 => "no validator in header",
                    _ => ACCEPTED,
                };
                assert_eq!(alone, missing, "{place}");
                continue;
            }

            assert_eq!(kind.verdict(&engine, &kind.signed(&engine, header)), wanted, "{place}, signed");
            if kind.is_v1() {
                // The seal recovers another address: that address is either unknown, or its turn has another
                // difficulty.
                let by_seal = ["invalid difficulty", "unauthorized"];
                let is_refused =
                    if is_sealed_in_v1 { alone == wanted || by_seal.contains(&&*alone) } else { alone == wanted };
                assert!(is_refused && (alone != ACCEPTED || !is_sealed_in_v1), "{place}: {alone}");
            } else {
                let is_left_to_the_seal = matches!(wanted, ACCEPTED | COINBASE) && header_is_changed(&kind, change);
                assert_eq!(alone, if is_left_to_the_seal { STRANGER } else { wanted }, "{place}");
            }
        }
    }
    println!("{checked} changed headers of {} kinds", kinds().len());
}

/// Returns whether the change has an effect: an empty list cannot be removed.
fn header_is_changed(kind: &Kind, change: Change) -> bool {
    let mut header = kind.header().header().clone();
    change(&mut header);
    header != *kind.header().header()
}
