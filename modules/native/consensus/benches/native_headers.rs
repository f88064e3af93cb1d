//! Measures the verification of a v2 header of a large network: 108 masternodes, 73 signatures in each certificate.
//!
//! `cold` verifies new headers on one thread: nearly all of it is 74 recoveries of a signer. `cold, all cores` spreads
//! the certificate's signatures. `warm` verifies headers whose signatures are cached, as those of earlier votes are.
//! `cargo bench -p tenon-native-consensus --bench native_headers`.

#![allow(clippy::expect_used, reason = "a failed setup ends the bench")]

use std::{hint::black_box, sync::Arc};

use alloy_primitives::{Address, B256, keccak256};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use secp256k1::{Message, SECP256K1, SecretKey};
use tenon_api::{ConsensusEngine, Header, NativeSeal, SealedHeader};
use tenon_chain::ChainSpec;
use tenon_memory_chain::MemoryChain;
use tenon_native_consensus::{
    BlockInfo, ExtraFields, NativeEngine, QuorumCertificate, recover, v2_seal_hash, vote_digest,
};
use tenon_native_spec::read_genesis;

const MASTERNODES: usize = 108;
const SIGNATURES: usize = 73;
const HEADERS: u64 = 64;

/// A network's headers, in memory.
struct Headers {
    spec: Arc<ChainSpec>,
    list: Vec<SealedHeader>,
    chain: MemoryChain,
}

fn sign(digest: B256, key: &SecretKey) -> Vec<u8> {
    let (id, compact) = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(digest.0), key).serialize_compact();
    [&compact[..], &[u8::try_from(i32::from(id)).expect("0 to 3")]].concat()
}

fn address_of(key: &SecretKey) -> Address {
    Address::from_slice(&keccak256(&key.public_key(SECP256K1).serialize_uncompressed()[1..])[12..])
}

/// A chain of one epoch in which every round has a block.
fn chain() -> Headers {
    let mut keys: Vec<SecretKey> =
        (1..=MASTERNODES).map(|n| SecretKey::from_byte_array(keccak256(n.to_be_bytes()).0).expect("a key")).collect();
    keys.sort_by_key(address_of);
    let addresses: Vec<u8> = keys.iter().flat_map(|key| address_of(key).0.0).collect();
    let extra = [&[0; 32][..], &addresses, &[0; 65]].concat();
    let config = format!(
        r#"{{"config":{{"chainId":5151,"XDPoS":{{"period":2,"epoch":900,"gap":450,"v2":{{"switchBlock":0,"allConfigs":
        {{"0":{{"maxMasternodes":108,"minePeriod":2,"certificateThreshold":0.667}}}}}}}}}},
        "extraData":"{}","difficulty":"0x1","gasLimit":"0x2faf080","alloc":{{}}}}"#,
        alloy_primitives::hex::encode_prefixed(extra)
    );
    let genesis = read_genesis(config.as_bytes()).expect("a genesis");
    let mut list = vec![genesis.sealed_header().expect("a header")];
    for round in 1..=HEADERS {
        let next = child(list.last().expect("a parent"), round, &keys, &addresses);
        list.push(next);
    }
    let chain = MemoryChain::default();
    list.iter().cloned().for_each(|header| chain.push_header(header));
    Headers { spec: genesis.spec, list, chain }
}

fn child(parent: &SealedHeader, round: u64, keys: &[SecretKey], addresses: &[u8]) -> SealedHeader {
    let block = BlockInfo { hash: parent.hash(), round: round - 1, number: parent.number };
    let digest = vote_digest(&block, 0);
    let needed = if round > 1 { SIGNATURES } else { 0 };
    let signatures = keys.iter().take(needed).map(|key| sign(digest, key).into()).collect();
    let quorum = QuorumCertificate { block, signatures, gap_number: 0 };
    let leader = &keys[usize::try_from(round % 900).expect("small") % MASTERNODES];
    let validators = if round == 1 { addresses.to_vec() } else { Vec::new() };
    let mut header = Header {
        parent_hash: parent.hash(),
        beneficiary: address_of(leader),
        number: round,
        timestamp: parent.timestamp + 2,
        extra_data: ExtraFields { round, quorum }.encode(),
        native_seal: Some(NativeSeal { validators: validators.into(), ..NativeSeal::default() }),
        ..parent.header().clone()
    };
    let signature = sign(v2_seal_hash(&header), leader);
    header.native_seal.as_mut().expect("native").validator = signature.into();
    tenon_chain::seal(header)
}

fn verify_all(engine: &NativeEngine, headers: &Headers) {
    for pair in headers.list.windows(2) {
        engine.verify_header(&pair[1], &pair[0], &headers.chain).expect("a valid header");
    }
}

fn verification(criterion: &mut Criterion) {
    let chain = chain();
    let fresh = || NativeEngine::for_headers_alone(&chain.spec).expect("native");
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");

    let mut group = criterion.benchmark_group("v2 headers, 108 masternodes, 73 signatures");
    group.throughput(Throughput::Elements(HEADERS)).sample_size(10);
    group.bench_function("cold, one core", |bencher| {
        one_thread.install(|| {
            bencher.iter_batched(fresh, |engine| verify_all(&engine, &chain), BatchSize::PerIteration);
        });
    });
    group.bench_function("cold, all cores", |bencher| {
        bencher.iter_batched(fresh, |engine| verify_all(&engine, &chain), BatchSize::PerIteration);
    });
    let engine = fresh();
    verify_all(&engine, &chain);
    group.bench_function("warm, one core", |bencher| {
        one_thread.install(|| bencher.iter(|| verify_all(&engine, &chain)));
    });
    group.finish();

    let digest = keccak256("digest");
    let key = SecretKey::from_byte_array(keccak256("key").0).expect("a key");
    let signature = sign(digest, &key);
    criterion
        .bench_function("recovery of one signer", |bencher| bencher.iter(|| recover(digest, black_box(&signature))));
}

criterion_group!(benches, verification);
criterion_main!(benches);
