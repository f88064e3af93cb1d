//! The table of `docs/spec/p2p.md` 15 over a chain in memory.

use alloy_primitives::U256;
use tenon_api::{Block, Header, NativeSeal, RecoveredBlock};
use tenon_memory_chain::MemoryChain;
use tenon_network_wire::{Message, version};

use super::*;

/// A header that follows another one; branches differ in `extra`.
fn child(parent: Option<&SealedHeader>, extra: u8) -> SealedHeader {
    tenon_chain::seal(Header {
        parent_hash: parent.map(SealedHeader::hash).unwrap_or_default(),
        number: parent.map_or(0, |parent| parent.number + 1),
        difficulty: U256::from(1),
        extra_data: vec![extra].into(),
        receipts_root: EMPTY_ROOT_HASH,
        native_seal: Some(NativeSeal::default()),
        ..Header::default()
    })
}

/// A chain up to block 300, and a branch of blocks 6 to 9 on block 5.
struct Chain {
    chain: MemoryChain,
    canonical: Vec<SealedHeader>,
    branch: Vec<SealedHeader>,
}

fn chain() -> Chain {
    let mut canonical: Vec<SealedHeader> = vec![child(None, 0)];
    while canonical.len() <= 300 {
        canonical.push(child(canonical.last(), 0));
    }
    let mut branch = vec![child(Some(&canonical[5]), 1)];
    while branch.len() < 4 {
        branch.push(child(branch.last(), 1));
    }
    let chain = MemoryChain::default();
    for header in branch.iter().chain(&canonical) {
        let block =
            Block { header: header.clone(), transactions: Vec::new(), ommers: Vec::new(), withdrawals: None, size: 0 };
        chain.push(Arc::new(RecoveredBlock { block, senders: Vec::new() }));
    }
    Chain { chain, canonical, branch }
}

impl Chain {
    fn headers(&self, origin: HeaderOrigin, amount: u64, skip: u64, is_reverse: bool) -> Vec<SealedHeader> {
        let (kind, payload) =
            answer(&self.chain, &PeerRequest::Headers(HeaderRequest { origin, amount, skip, is_reverse }));
        let version = version(100).unwrap();
        match Message::decode(version, version.code(kind).unwrap(), &payload).unwrap() {
            Message::BlockHeaders(headers) => headers,
            other => panic!("{other:?}"),
        }
    }

    fn numbers(&self, origin: u64, amount: u64, skip: u64, is_reverse: bool) -> [Vec<u64>; 2] {
        let hash = self.canonical.get(origin as usize).map_or(B256::ZERO, SealedHeader::hash);
        [HeaderOrigin::Number(origin), HeaderOrigin::Hash(hash)]
            .map(|origin| self.headers(origin, amount, skip, is_reverse).iter().map(|header| header.number).collect())
    }
}

#[test]
fn headers_by_number_and_by_hash_in_both_directions() {
    let chain = chain();
    let cases: [(u64, u64, u64, bool, &[u64]); 14] = [
        (150, 1, 0, false, &[150]),
        (150, 3, 0, false, &[150, 151, 152]),
        (150, 3, 0, true, &[150, 149, 148]),
        (150, 3, 3, false, &[150, 154, 158]),
        (150, 3, 3, true, &[150, 146, 142]),
        (0, 1, 0, false, &[0]),
        (300, 1, 0, false, &[300]),
        (296, 3, 3, false, &[296, 300]),
        (296, 3, 2, false, &[296, 299]),
        (4, 3, 3, true, &[4, 0]),
        (4, 3, 2, true, &[4, 1]),
        (3, 4, u64::MAX - 1, false, &[3]),
        (1, 4, u64::MAX, false, &[1]),
        (1, 4, u64::MAX, true, &[1]),
    ];
    for (origin, amount, skip, is_reverse, wanted) in cases {
        assert_eq!(chain.numbers(origin, amount, skip, is_reverse), [wanted, wanted], "{origin} {amount} {skip}");
    }
    assert_eq!(chain.numbers(301, 1, 0, false), [Vec::<u64>::new(), Vec::new()]);
    assert_eq!(chain.numbers(5, 0, 0, false), [Vec::<u64>::new(), Vec::new()]);
}

#[test]
fn an_answer_has_192_headers_at_most() {
    let chain = chain();
    let [by_number, by_hash] = chain.numbers(0, u64::MAX, 0, false);
    assert_eq!((by_number.len(), by_hash.len()), (192, 192));
}

#[test]
fn a_branch_is_followed_to_its_ancestors_and_never_forward() {
    let chain = chain();
    let tip = HeaderOrigin::Hash(chain.branch[3].hash());

    let down = chain.headers(tip, 6, 0, true);

    let [first, second, third, fourth] = &chain.branch[..] else { panic!("four blocks") };
    assert_eq!(down[..4], [fourth.clone(), third.clone(), second.clone(), first.clone()]);
    assert_eq!(down[4..], [chain.canonical[5].clone(), chain.canonical[4].clone()]);
    assert_eq!(chain.headers(tip, 3, 4, true), [fourth.clone(), chain.canonical[4].clone()]);
    assert_eq!(chain.headers(HeaderOrigin::Hash(first.hash()), 3, 0, false), std::slice::from_ref(first));
}

#[test]
fn unknown_blocks_are_left_out_and_every_question_is_answered() {
    let chain = chain();
    let known = chain.canonical[7].hash();
    let asked = vec![B256::ZERO, known, known];

    let (kind, bodies) = answer(&chain.chain, &PeerRequest::Bodies(asked.clone()));
    assert_eq!((kind, &bodies[..]), (Kind::BlockBodies, &[0xc6, 0xc2, 0xc0, 0xc0, 0xc2, 0xc0, 0xc0][..]));

    let (kind, receipts) = answer(&chain.chain, &PeerRequest::Receipts(asked.clone()));
    assert_eq!((kind, &receipts[..]), (Kind::Receipts, &[0xc2, 0xc0, 0xc0][..]));

    let (kind, data) = answer(&chain.chain, &PeerRequest::NodeData(asked));
    assert_eq!((kind, &data[..]), (Kind::NodeData, &[0xc0][..]));
}

#[test]
fn an_answer_has_128_bodies_at_most() {
    let chain = chain();
    let hashes = chain.canonical.iter().take(129).map(SealedHeader::hash).collect();
    let (_, payload) = answer(&chain.chain, &PeerRequest::Bodies(hashes));
    let Message::BlockBodies(bodies) = Message::decode(version(100).unwrap(), 6, &payload).unwrap() else {
        panic!("bodies")
    };
    assert_eq!(bodies.len(), 128);
}

#[test]
fn an_answer_ends_with_the_item_that_reaches_2_mib() {
    let mut items = Items::new(1000);
    let hashes = vec![B256::ZERO; 1000];
    each(&hashes, &mut items, |_| Ok(Some(vec![0; 100_000]))).unwrap();
    assert_eq!(items.count, 21);
}
