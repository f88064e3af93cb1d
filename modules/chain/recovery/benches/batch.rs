//! Compares the cost per signature in batches with the C library.
//!
//! `c library` recovers one after the other, including the hashes of keys; the other rows recover batches of the given
//! sizes. `cargo bench -p tenon-recovery --bench batch`.

#![allow(clippy::expect_used, reason = "a failed setup ends the bench")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::{Rng, SeedableRng, rngs::StdRng};
use secp256k1::{Message, SECP256K1, SecretKey};
use tenon_recovery::{Signature, is_vectorised, recover, recover_batch};

fn signed(random: &mut StdRng) -> ([u8; 32], Signature) {
    let hash = random.random();
    let key = SecretKey::from_byte_array(random.random()).expect("all but a few numbers are keys");
    let (id, compact) = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(hash), &key).serialize_compact();
    let mut bytes = [0; 65];
    bytes[..64].copy_from_slice(&compact);
    bytes[64] = u8::try_from(i32::from(id)).expect("0 to 3");
    (hash, Signature::from(&bytes))
}

fn batches(criterion: &mut Criterion) {
    println!("eight at a time: {}", is_vectorised());
    let mut random = StdRng::seed_from_u64(1);
    let signatures: Vec<_> = (0..1024).map(|_| signed(&mut random)).collect();
    let mut group = criterion.benchmark_group("recovery");
    group.throughput(Throughput::Elements(64)).sample_size(20);
    group.bench_function("c library", |bencher| {
        bencher.iter(|| {
            for (hash, signature) in &signatures[..64] {
                black_box(recover(hash, signature).expect("a signature"));
            }
        });
    });
    for size in [1, 2, 7, 8, 12, 13, 16, 64, 256, 1024] {
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(format!("batch of {size}"), |bencher| {
            bencher.iter(|| recover_batch(black_box(&signatures[..size])));
        });
    }
    group.finish();
}

criterion_group!(benches, batches);
criterion_main!(benches);
