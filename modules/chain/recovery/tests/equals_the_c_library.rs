//! For every input, a batch returns the same as the C library for each single signature.
//!
//! `TENON_SIGNATURES` is the number of random signatures compared (default 1,000,000; the long run has 100,000,000),
//! `TENON_SEED` repeats a run.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::{collections::HashSet, thread};

use alloy_primitives::{Address, keccak256};
use rand::{Rng, SeedableRng, rngs::StdRng};
use secp256k1::{
    Message, PublicKey, SECP256K1, SecretKey,
    ecdsa::{RecoverableSignature, RecoveryId},
};
use sha2::Digest as _;
use tenon_recovery::{
    RecoveryError, Signature, check_one_in, check_status, recover, recover_batch, recover_public_keys,
};

/// The group's order.
const ORDER: [u8; 32] = alloy_primitives::hex!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");
/// p − n: an x of r + n exists only for smaller r.
const PRIME_LESS_ORDER: [u8; 32] =
    alloy_primitives::hex!("000000000000000000000000000000014551231950b75fc4402da1722fc9baee");

/// The C library's result, called directly.
fn expected(hash: &[u8; 32], signature: &Signature) -> Result<[u8; 64], RecoveryError> {
    let id = RecoveryId::try_from(i32::from(signature.recovery_id)).map_err(|_| RecoveryError::RecoveryId)?;
    let compact: [u8; 64] = [signature.r, signature.s].concat().try_into().unwrap();
    let parsed = RecoverableSignature::from_compact(&compact, id).map_err(|_| RecoveryError::OutOfRange)?;
    if signature.r == [0; 32] || signature.s == [0; 32] {
        return Err(RecoveryError::OutOfRange);
    }
    let key = SECP256K1.recover_ecdsa(Message::from_digest(*hash), &parsed);
    Ok(key.map_err(|_| RecoveryError::NoPublicKey)?.serialize_uncompressed()[1..].try_into().unwrap())
}

fn compare(batch: &[([u8; 32], Signature)]) {
    let (addresses, keys) = (recover_batch(batch), recover_public_keys(batch));
    assert_eq!((addresses.len(), keys.len()), (batch.len(), batch.len()));
    for (index, (hash, signature)) in batch.iter().enumerate() {
        let expected = expected(hash, signature);
        assert_eq!(keys[index].map(|key| key.0), expected, "signature {index} of {}: {signature:x?}", batch.len());
        let address = expected.map(|key| Address::from_slice(&keccak256(key)[12..]));
        assert_eq!(addresses[index], address, "signature {index} of {}", batch.len());
        assert_eq!(recover(hash, signature), address, "signature {index} alone");
    }
}

fn plus(number: [u8; 32], add: i8) -> [u8; 32] {
    let (mut sum, mut carry) = (number, i16::from(add));
    for byte in sum.iter_mut().rev() {
        let total = i16::from(*byte) + carry;
        *byte = (total & 0xff) as u8;
        carry = total >> 8;
    }
    sum
}

/// Numbers at the boundaries of rules.
fn edges() -> Vec<[u8; 32]> {
    let mut half = [0; 32];
    half.copy_from_slice(&alloy_primitives::hex!("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0"));
    let mut edges: Vec<[u8; 32]> =
        [[0; 32], ORDER, PRIME_LESS_ORDER, half].iter().flat_map(|at| (-2..=2).map(|add| plus(*at, add))).collect();
    edges.extend([[0xff; 32], [0x80; 32], plus([0; 32], 4)]);
    edges
}

/// A signature by a random key, or random numbers that are mostly invalid.
fn random_signature(random: &mut StdRng) -> ([u8; 32], Signature) {
    let hash = random.random();
    if random.random_ratio(1, 8) {
        let any = Signature { r: random.random(), s: random.random(), recovery_id: random.random_range(0..5) };
        return (hash, any);
    }
    let key = loop {
        if let Ok(key) = SecretKey::from_byte_array(random.random()) {
            break key;
        }
    };
    let (id, compact) = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(hash), &key).serialize_compact();
    let mut bytes = [0; 65];
    bytes[..64].copy_from_slice(&compact);
    bytes[64] = u8::try_from(i32::from(id)).unwrap();
    (hash, Signature::from(&bytes))
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn random_signatures_in_batches_of_any_size() {
    let (count, seed) = (number("TENON_SIGNATURES", 1_000_000), number("TENON_SEED", rand::rng().random()));
    println!("TENON_SEED={seed}");
    let threads = thread::available_parallelism().unwrap().get() as u64;
    thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed ^ number);
                let mut done = 0;
                while done < count / threads {
                    let size = random.random_range(1..=1_000);
                    // Signing costs as much as recovering: each signature is compared with eight hashes and with
                    // flipped bits.
                    let made: Vec<_> = (0..size / 8 + 1).map(|_| random_signature(&mut random)).collect();
                    let batch: Vec<_> = (0..size)
                        .map(|index| {
                            let (hash, signature) = made[index / 8];
                            match index % 8 {
                                0 => (hash, signature),
                                1 => (hash, Signature { recovery_id: signature.recovery_id ^ 1, ..signature }),
                                2 => (hash, Signature { s: random.random(), ..signature }),
                                _ => (random.random(), signature),
                            }
                        })
                        .collect();
                    let found = recover_public_keys(&batch);
                    for (index, (hash, signature)) in batch.iter().enumerate() {
                        assert_eq!(
                            found[index].map(|key| key.0),
                            expected(hash, signature),
                            "{hash:x?} {signature:x?}"
                        );
                    }
                    done += size as u64;
                }
            });
        }
    });
}

#[test]
fn batches_of_all_small_sizes_and_of_many_up_to_a_thousand() {
    let mut random = StdRng::seed_from_u64(1);
    let signatures: Vec<_> = (0..1_000).map(|_| random_signature(&mut random)).collect();
    let alone: Vec<_> = signatures.iter().map(|(hash, signature)| expected(hash, signature)).collect();
    let sizes = (0..=130).chain((131..1_000).step_by(29)).chain(993..=1_000);
    for size in sizes {
        let first = random.random_range(0..=1_000 - size);
        let found = recover_public_keys(&signatures[first..first + size]);
        let found: Vec<_> = found.into_iter().map(|key| key.map(|key| key.0)).collect();
        assert_eq!(found, alone[first..first + size], "{size} from {first} on");
    }
}

#[test]
fn an_invalid_signature_in_any_lane_affects_no_other() {
    let mut random = StdRng::seed_from_u64(2);
    let good: Vec<_> = std::iter::repeat_with(|| random_signature(&mut random))
        .filter(|(hash, signature)| expected(hash, signature).is_ok())
        .take(16)
        .collect();
    for edge in edges() {
        for lane in 0..16 {
            for field in 0..3 {
                let mut batch = good.clone();
                match field {
                    0 => batch[lane].0 = edge,
                    1 => batch[lane].1.r = edge,
                    _ => batch[lane].1.s = edge,
                }
                batch[lane].1.recovery_id = random.random_range(0..5);
                compare(&batch);
            }
        }
    }
}

#[test]
fn edges_of_all_numbers_with_every_recovery_id() {
    let edges = edges();
    let mut batch = Vec::new();
    for hash in &edges {
        for r in &edges {
            for s in &edges {
                batch.extend((0..5).map(|recovery_id| (*hash, Signature { r: *r, s: *s, recovery_id })));
            }
        }
    }
    compare(&batch);
    let kinds: HashSet<String> = recover_batch(&batch).iter().map(|found| format!("{:?}", found.err())).collect();
    assert_eq!(kinds.len(), 4, "all errors, and keys: {kinds:?}");
}

/// r small enough that r + n is below p: all four recovery ids can have a key.
#[test]
fn an_x_beyond_the_order_is_found() {
    let mut random = StdRng::seed_from_u64(3);
    let batch: Vec<_> = (0..512)
        .map(|index| {
            let mut r = [0; 32];
            r[16..].copy_from_slice(&random.random::<[u8; 16]>());
            r[15] = u8::from(index % 4 == 0);
            (random.random(), Signature { r, s: random.random(), recovery_id: 2 + (index & 1) as u8 })
        })
        .collect();
    compare(&batch);
    let found = recover_batch(&batch).iter().filter(|found| found.is_ok()).count();
    assert!((100..400).contains(&found), "about half of all numbers are an x of the curve: {found}");
}

/// The key is the sum of a multiple of G and one of R: here the sum or one of both is infinite.
#[test]
fn a_key_at_infinity_is_refused() {
    // R = k × G; with s × k = message the sum is infinite.
    let mut batch = Vec::new();
    for k in 1..=64_u8 {
        let nonce = SecretKey::from_byte_array(plus([0; 32], k as i8)).unwrap();
        let point = PublicKey::from_secret_key(SECP256K1, &nonce).serialize_uncompressed();
        let mut signature =
            Signature { r: point[1..33].try_into().unwrap(), s: plus([0; 32], 1), recovery_id: point[64] & 1 };
        // message = k × s: infinite. message = −k × s: the double of R's multiple.
        batch.push((nonce.secret_bytes(), signature));
        batch.push((nonce.negate().secret_bytes(), signature));
        // message = 0 and n: the multiple of G is infinite.
        batch.push(([0; 32], signature));
        batch.push((ORDER, signature));
        signature.recovery_id ^= 1;
        batch.push((nonce.secret_bytes(), signature));
    }
    compare(&batch);
    let none = recover_batch(&batch).iter().filter(|found| **found == Err(RecoveryError::NoPublicKey)).count();
    assert_eq!(none, 64, "each of the first kind");
}

/// The recovery vectors of the C library's own tests.
#[test]
fn vectors_of_the_c_library() {
    let message = *b"This is a very secret message...";
    let of_key_zero: [u8; 64] = alloy_primitives::hex!(
        "67cb285f9cd194e840d629397af5569662fde44649995963179a7dd17bd23532
         4b1b7df34ce1f68e694ff6f11ac751dd7dd73e387ee4fc866e1be8ecc7dd9557"
    );
    let signature = |compact: &[u8; 64], recovery_id| Signature {
        r: compact[..32].try_into().unwrap(),
        s: compact[32..].try_into().unwrap(),
        recovery_id,
    };
    let four = plus([0; 32], 4);
    let fours: [u8; 64] = [four, four].concat().try_into().unwrap();
    let mut batch: Vec<_> = (0..4).map(|id| (message, signature(&of_key_zero, id))).collect();
    batch.extend((0..4).map(|id| (message, signature(&fours, id))));
    compare(&batch);
    let found: Vec<bool> = recover_batch(&batch).iter().map(|found| found.is_ok()).collect();
    assert_eq!(found, [false, true, false, false, true, true, true, true]);
}

fn check_wycheproof(name: &str, hash: impl Fn(&[u8]) -> [u8; 32]) {
    let path = format!("{}/tests/data/{name}.json.gz", env!("CARGO_MANIFEST_DIR"));
    let suite: serde_json::Value = tenon_test_data::json(path);
    let (mut batch, mut of) = (Vec::new(), Vec::new());
    for group in suite["testGroups"].as_array().unwrap() {
        let key = hex::decode(group["publicKey"]["uncompressed"].as_str().unwrap()).unwrap();
        for test in group["tests"].as_array().unwrap() {
            let bytes = hex::decode(test["sig"].as_str().unwrap()).unwrap();
            let Ok(bytes) = <[u8; 64]>::try_from(bytes) else {
                assert_eq!(test["result"], "invalid", "{test}");
                continue;
            };
            let message = hash(&hex::decode(test["msg"].as_str().unwrap()).unwrap());
            let (r, s) = (bytes[..32].try_into().unwrap(), bytes[32..].try_into().unwrap());
            batch.extend((0..4).map(|recovery_id| (message, Signature { r, s, recovery_id })));
            of.push((key[1..].to_vec(), test["result"] == "valid", test.to_string()));
        }
    }
    compare(&batch);
    let found = recover_public_keys(&batch);
    for ((key, is_valid, test), found) in of.iter().zip(found.chunks(4)) {
        let is_found = found.iter().flatten().any(|found| found.0 == key[..]);
        assert_eq!(is_found, *is_valid, "{test}");
    }
    assert!(of.len() > 150, "{}", of.len());
}

#[test]
fn vectors_of_wycheproof() {
    check_wycheproof("ecdsa_secp256k1_sha256_p1363_test", |message| sha2::Sha256::digest(message).into());
    let of_sha512 = |message: &[u8]| sha2::Sha512::digest(message)[..32].try_into().unwrap();
    check_wycheproof("ecdsa_secp256k1_sha512_p1363_test", of_sha512);
}

#[test]
fn results_are_computed_twice_if_requested() {
    check_one_in(1);
    let before = check_status();
    let mut random = StdRng::seed_from_u64(4);
    let batch: Vec<_> = (0..64).map(|_| random_signature(&mut random)).collect();
    compare(&batch);
    let after = check_status();
    assert_eq!(after.wrong, 0);
    if tenon_recovery::is_vectorised() {
        assert!(after.checked >= before.checked + 80, "{before:?} {after:?}");
    }
}
