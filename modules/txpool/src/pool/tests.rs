//! Tests of the pool over a chain in memory: error texts, progress of the chain, the journal, the bus.

use tenon_api::{Account, Bytes, Header, TransactionPayload, messages::SubmitTransaction};
use tenon_bus::{CallContext, ClientId, Delivery, Origin, Transport};
use tenon_chain::{
    Fork,
    codec::{BLOB_BYTES, KzgPoint, versioned_hash},
};
use tenon_memory_chain::MemoryChain;
use tenon_supervisor::Supervisor;

use tenon_sdk::error_texts::Refusal as _;

use super::*;
use crate::EthereumPolicy;
use crate::fake_chain::{self, CHAIN_ID, KeysOf, address, advance, advance_on, sign, signed, transfer};

fn open_with(chain: &Arc<MemoryChain>, fork: Fork, options: PoolOptions) -> Pool {
    let spec = Arc::new(ChainSpec::ethereum_at(CHAIN_ID, fork));
    let policy = Box::new(EthereumPolicy::new(Arc::clone(&spec)));
    Pool::open(spec, policy, Arc::clone(chain) as _, Arc::new(KeysOf(9)), Bus::new(), options).unwrap()
}

fn open(chain: &Arc<MemoryChain>) -> Pool {
    open_with(chain, Fork::Osaka, PoolOptions::for_tests())
}

/// The text that a client receives.
fn text_of(error: PoolError) -> String {
    match error {
        PoolError::Refused(refusal) => refusal.into_failure().message,
        PoolError::Store(error) => error.to_string(),
    }
}

fn refusal(pool: &Pool, raw: &[u8]) -> String {
    pool.submit(raw, Source::Operator).map_or_else(text_of, |_| "taken".to_owned())
}

fn rich(nonce: u64) -> Account {
    Account { nonce, balance: U256::from(10).pow(U256::from(20)), ..Account::default() }
}

#[test]
fn refuses_with_the_texts_that_clients_match() {
    let chain = fake_chain::chain();
    chain.change_account(address(1), |account| account.nonce = 5);
    chain.change_account(address(2), |account| account.balance = U256::from(20_999));
    let change = |edit: fn(&mut Transaction)| {
        let mut transaction = transfer(0, 1, 1);
        edit(&mut transaction);
        transaction
    };
    let cases = [
        (signed(1, transfer(4, 1, 1)), "nonce too low: next nonce 5, tx nonce 4"),
        (
            signed(2, transfer(0, 1, 1)),
            "insufficient funds for gas * price + value: balance 20999, queued cost 0, tx cost 21000, overshot 1",
        ),
        (signed(0, change(|tx| tx.gas_limit = 20_999)), "intrinsic gas too low: gas 20999, minimum needed 21000"),
        (
            signed(0, change(|tx| tx.gas_limit = 16_777_217)),
            "transaction gas limit too high (cap: 16777216, tx: 16777217)",
        ),
        (
            signed(0, transfer(0, 1, 2)),
            "max priority fee per gas higher than max fee per gas (maxPriorityFeePerGas: 2, maxFeePerGas: 1)",
        ),
        (
            signed(0, change(|tx| tx.chain_id = Some(1))),
            "invalid sender: invalid chain id for signer: have 1 want 31337",
        ),
        (signed(0, change(|tx| tx.nonce = u64::MAX)), "nonce has max value"),
        (
            signed(0, change(|tx| (tx.input, tx.gas_limit) = (vec![1; 1000].into(), 37_000))),
            "insufficient gas for floor data gas cost: gas 37000, minimum needed 61000",
        ),
        (
            signed(0, change(|tx| (tx.input, tx.gas_limit) = (vec![0; 131_073].into(), 9_000_000))),
            "oversized data: transaction size 131",
        ),
        (
            signed(0, change(|tx| (tx.input, tx.gas_limit, tx.to) = (vec![0; 49_153].into(), 9_000_000, None))),
            "max initcode size exceeded: code size 49153, limit 49152",
        ),
        (signed(0, transfer(0, 50_000_000_000_000, 1)), "tx fee (1.05 ether) exceeds the configured cap (1.00 ether)"),
        (
            signed(
                0,
                change(|tx| {
                    tx.payload = TransactionPayload::SetCode {
                        max_fee_per_gas: U256::from(1),
                        max_priority_fee_per_gas: U256::from(1),
                        access_list: Vec::new(),
                        authorization_list: Vec::new(),
                    }
                }),
            ),
            "set code tx must have at least one authorization tuple",
        ),
        (vec![], "typed transaction too short"),
        (vec![0x7f, 0xc0], "transaction type not supported"),
    ];
    let pool = open(&chain);
    for (raw, wanted) in cases {
        let text = refusal(&pool, &raw);
        assert!(text.starts_with(wanted), "{text:?} instead of {wanted:?}");
    }
    assert_eq!(pool.status(), PoolStatus::default());
}

#[test]
fn gas_beyond_the_block_and_types_before_their_fork_are_refused() {
    let chain = fake_chain::chain();
    let mut huge = transfer(0, 1, 1);
    huge.gas_limit = 30_000_001;

    assert_eq!(
        refusal(&open_with(&chain, Fork::Prague, PoolOptions::for_tests()), &signed(0, huge)),
        "exceeds block gas limit"
    );
    assert_eq!(
        refusal(&open_with(&chain, Fork::Berlin, PoolOptions::for_tests()), &signed(0, transfer(0, 1, 1))),
        "transaction type not supported: type 2 rejected at the present fork"
    );
}

#[test]
fn refuses_duplicates_and_cheap_replacements() {
    let chain = fake_chain::chain();
    let pool = open(&chain);
    let raw = signed(0, transfer(0, 100, 100));

    let hash = pool.submit(&raw, Source::Operator).unwrap();

    assert_eq!(pool.get(hash).unwrap().sender, address(0));
    assert_eq!(refusal(&pool, &raw), "already known");
    assert_eq!(refusal(&pool, &signed(0, transfer(0, 109, 109))), "replacement transaction underpriced");
    assert_eq!(refusal(&pool, &signed(0, transfer(0, 110, 110))), "taken");
    assert_eq!((pool.get(hash), pool.status().pending), (None, 1));
}

#[test]
fn every_source_pays_the_minimum_tip() {
    let chain = fake_chain::chain();
    let pool = open(&chain);

    for source in [Source::Operator, Source::Client, Source::Peer] {
        for account in [0, 9] {
            let refused = text_of(pool.submit(&signed(account, transfer(0, 5, 0)), source).unwrap_err());
            assert_eq!(refused, "transaction underpriced: gas tip cap 0, minimum needed 1", "{source:?} {account}");
        }
    }
    pool.submit(&signed(0, transfer(0, 5, 0)), Source::Reorganisation).unwrap();
}

#[test]
fn transactions_of_the_operator_and_of_the_nodes_accounts_are_local() {
    let chain = fake_chain::chain();
    let folder = tempfile::tempdir().unwrap();
    let journal = Some(folder.path().join("transactions.journal"));
    let options =
        PoolOptions { global_slots: 4, local_slots: 4, account_slots: 1, journal, ..PoolOptions::for_tests() };
    let pool = open_with(&chain, Fork::Osaka, options.clone());
    let send = |account, nonce, source| pool.submit(&signed(account, transfer(nonce, 9, 9)), source);

    send(0, 0, Source::Client).unwrap();
    send(1, 0, Source::Operator).unwrap();
    send(9, 0, Source::Client).unwrap();
    send(9, 1, Source::Peer).unwrap();
    assert_eq!(
        send(0, 1, Source::Client),
        Err(PoolRefusal::AccountLimit { sender: address(0), limit: 1 }.into()),
        "a client over the network is bounded"
    );
    send(1, 1, Source::Operator).unwrap();
    assert_eq!(pool.status().pending, 4);
    assert_eq!(pool.next_nonce(address(0)).unwrap(), 0, "local transactions evict others");
    assert_eq!(send(2, 0, Source::Client), Err(PoolRefusal::Full.into()));
    drop(pool);

    let pool = open_with(&chain, Fork::Osaka, options);
    let kept = [0, 1, 9].map(|account| pool.next_nonce(address(account)).unwrap());
    assert_eq!(kept, [0, 2, 2]);
}

/// `tests/faults/test_pool.py` tests the real program with a pool of the default size.
#[test]
fn free_transactions_never_displace_a_paying_one() {
    for min_tip in [1, 0] {
        let chain = fake_chain::chain();
        let options = PoolOptions { min_tip: U256::from(min_tip), global_slots: 40, ..PoolOptions::for_tests() };
        let pool = open_with(&chain, Fork::Osaka, options);
        for account in 10..=60 {
            let _ = pool.submit(&signed(account, transfer(0, 0, 0)), Source::Client);
        }
        assert_eq!(pool.status().pending, if min_tip == 0 { 40 } else { 0 });

        assert_eq!(pool.submit(&signed(0, transfer(0, 1, 1)), Source::Client).err(), None);

        assert_eq!(pool.best(Some(1)).len(), 1);
    }
}

#[test]
fn a_higher_minimum_tip_drops_cheaper_transactions_that_are_not_local() {
    let chain = fake_chain::chain();
    let pool = open(&chain);
    for (account, nonce, tip, source) in [
        (0, 0, 9, Source::Client),
        (0, 1, 3, Source::Client),
        (0, 2, 9, Source::Client),
        (1, 0, 3, Source::Operator),
        (9, 0, 3, Source::Client),
    ] {
        pool.submit(&signed(account, transfer(nonce, 9, tip)), source).unwrap();
    }

    pool.set_min_tip(U256::from(5));

    assert_eq!((pool.status().pending, pool.status().queued), (3, 1), "nonce 2 of account 0 waits for a new nonce 1");
    let cheap = signed(2, transfer(0, 9, 4));
    assert_eq!(refusal(&pool, &cheap), "transaction underpriced: gas tip cap 4, minimum needed 5");

    pool.set_min_tip(U256::from(4));

    assert_eq!(refusal(&pool, &cheap), "taken");
}

#[test]
fn unprotected_transactions_are_the_operators_choice() {
    let chain = fake_chain::chain();
    let mut legacy = transfer(0, 0, 0);
    legacy.chain_id = None;
    legacy.payload = TransactionPayload::Legacy { gas_price: U256::from(7) };
    let raw = signed(0, legacy);
    let strict = PoolOptions { allows_unprotected: false, ..PoolOptions::for_tests() };

    assert_eq!(refusal(&open(&chain), &raw), "taken");
    assert_eq!(
        refusal(&open_with(&chain, Fork::Osaka, strict), &raw),
        "only replay-protected (EIP-155) transactions allowed over RPC"
    );
}

#[test]
fn a_block_removes_its_transactions_and_makes_the_next_ones_pending() {
    let chain = fake_chain::chain();
    let pool = open(&chain);
    let mined = sign(0, transfer(0, 9, 9));
    pool.submit(&tenon_chain::encode_transaction(&mined), Source::Operator).unwrap();
    pool.submit(&signed(0, transfer(2, 9, 9)), Source::Operator).unwrap();
    assert_eq!((pool.status().pending, pool.status().queued), (1, 1));

    let elsewhere = sign(0, transfer(1, 9, 9));
    let commit = advance(&chain, &[mined, elsewhere], &[(address(0), rich(2))]);
    pool.on_committed(&commit).unwrap();

    assert_eq!((pool.status().pending, pool.status().queued), (1, 0));
    assert_eq!(pool.next_nonce(address(0)).unwrap(), 3);
    pool.on_committed(&commit).unwrap();
    assert_eq!(pool.status().pending, 1);
}

#[test]
fn a_submission_sees_the_chain_before_the_pool_is_notified_of_the_block() {
    let chain = fake_chain::chain();
    chain.change_account(address(3), |account| account.balance = U256::ZERO);
    let pool = open(&chain);
    pool.submit(&signed(0, transfer(0, 9, 9)), Source::Operator).unwrap();

    let commit = advance(&chain, &[], &[(address(3), rich(0)), (address(0), rich(1))]);

    assert_eq!(refusal(&pool, &signed(3, transfer(0, 9, 9))), "taken");
    assert_eq!(refusal(&pool, &signed(0, transfer(0, 99, 99))), "nonce too low: next nonce 1, tx nonce 0");
    assert_eq!(pool.next_nonce(address(0)).unwrap(), 1);
    pool.on_committed(&commit).unwrap();
    assert_eq!(pool.status(), PoolStatus { pending: 1, queued: 0 });
}

#[test]
fn transactions_of_an_abandoned_branch_return_and_those_of_a_reset_head_do_not() {
    let chain = fake_chain::chain();
    let genesis = chain.head().header.as_ref().clone();
    let pool = open(&chain);
    let lost = sign(0, transfer(0, 9, 0));
    let commit = advance(&chain, std::slice::from_ref(&lost), &[(address(0), rich(1))]);
    pool.on_committed(&commit).unwrap();
    let unwound = [Arc::clone(&commit.block)];

    chain.change_account(address(0), |account| account.nonce = 0);
    chain.set_head(genesis.hash());
    pool.on_unwound(&unwound).unwrap();
    assert_eq!(pool.status(), PoolStatus::default());

    let other = Header { timestamp: 77, ..genesis.header().clone() };
    let winner = advance_on(&chain, &tenon_chain::seal(other), &[], &[]);
    pool.on_unwound(&unwound).unwrap();
    pool.on_committed(&winner).unwrap();
    assert_eq!(pool.get(lost.hash).unwrap().sender, address(0));
    assert_eq!(pool.status(), PoolStatus { pending: 1, queued: 0 });
}

#[test]
fn a_journal_deleted_while_it_is_open_is_written_again_with_the_whole_pool() {
    let chain = fake_chain::chain();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("transactions.journal");
    let options = PoolOptions { journal: Some(path.clone()), ..PoolOptions::for_tests() };
    let pool = open_with(&chain, Fork::Osaka, options.clone());
    pool.submit(&signed(0, transfer(0, 9, 9)), Source::Operator).unwrap();
    std::fs::remove_file(&path).unwrap();

    pool.submit(&signed(0, transfer(1, 9, 9)), Source::Operator).unwrap();
    drop(pool);

    assert_eq!(open_with(&chain, Fork::Osaka, options).status(), PoolStatus { pending: 2, queued: 0 });
}

#[test]
fn local_transactions_survive_a_restart_and_used_ones_leave_the_journal() {
    let chain = fake_chain::chain();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("transactions.journal");
    let options = PoolOptions { journal: Some(path.clone()), ..PoolOptions::for_tests() };
    let pool = open_with(&chain, Fork::Osaka, options.clone());
    let first = pool.submit(&signed(0, transfer(0, 9, 9)), Source::Operator).unwrap();
    let second = pool.submit(&signed(0, transfer(1, 9, 9)), Source::Operator).unwrap();
    pool.submit(&signed(1, transfer(0, 9, 9)), Source::Peer).unwrap();
    drop(pool);

    chain.change_account(address(0), |account| account.nonce = 1);
    let pool = open_with(&chain, Fork::Osaka, options);

    assert_eq!(pool.status(), PoolStatus { pending: 1, queued: 0 });
    assert!(pool.get(first).is_none() && pool.get(second).is_some());
    let length = std::fs::metadata(&path).unwrap().len();
    pool.evict_and_rotate(Instant::now());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
}

/// A transaction with one all-zero blob, whose commitment and proof are the point at infinity.
fn with_blob(version: u8) -> (Transaction, BlobSidecar) {
    let mut infinity = KzgPoint::ZERO;
    infinity.0[0] = 0xc0;
    let mut transaction = transfer(0, 9, 9);
    transaction.payload = TransactionPayload::Blob {
        max_fee_per_gas: U256::from(9),
        max_priority_fee_per_gas: U256::from(9),
        access_list: Vec::new(),
        max_fee_per_blob_gas: U256::from(1),
        blob_versioned_hashes: vec![versioned_hash(&infinity)],
    };
    let proofs = if version == 0 { 1 } else { 128 };
    let blobs = vec![Bytes::from(vec![0; BLOB_BYTES])];
    let sidecar = BlobSidecar { version, blobs, commitments: vec![infinity], proofs: vec![infinity; proofs] };
    (sign(0, transaction), sidecar)
}

#[test]
fn blobs_are_accepted_with_valid_proofs_only() {
    let chain = fake_chain::chain();
    let raw = |(transaction, sidecar): &(Transaction, BlobSidecar)| {
        tenon_chain::encode_pooled_transaction(transaction, sidecar)
    };
    for version in [0, 1] {
        assert_eq!(refusal(&open(&chain), &raw(&with_blob(version))), "taken", "version {version}");

        let mut wrong = with_blob(version);
        let mut blob = vec![0; BLOB_BYTES];
        blob[31] = 1;
        wrong.1.blobs = vec![blob.into()];
        assert_eq!(refusal(&open(&chain), &raw(&wrong)), "invalid blob proof", "version {version}");
    }

    let prague = open_with(&chain, Fork::Prague, PoolOptions::for_tests());
    assert_eq!(refusal(&prague, &raw(&with_blob(1))), "unexpected sidecar version, want: 0, got: 1");
    assert_eq!(refusal(&prague, &raw(&with_blob(0))), "taken");
    let bare = tenon_chain::encode_transaction(&with_blob(0).0);
    assert_eq!(refusal(&open(&chain), &bare), "missing sidecar in blob transaction");
    let mut mismatch = with_blob(0);
    mismatch.1.commitments[0].0[1] = 1;
    assert_eq!(refusal(&open(&chain), &raw(&mismatch)), "sidecar does not match the blob hashes of the transaction");
}

#[tokio::test]
async fn answers_and_announces_on_the_bus_and_follows_the_chain() {
    let chain = fake_chain::chain();
    let pool = open(&chain);
    let bus = pool.inner.bus.clone();
    crate::register(&bus, &pool).unwrap();
    let mut announced = bus.subscribe::<TransactionPending>();
    let supervisor = Supervisor::new().unwrap();
    let following = tokio::spawn(crate::spawn_pool(&supervisor, &pool).unwrap().run());
    let transaction = sign(0, transfer(0, 9, 9));
    let raw: Bytes = tenon_chain::encode_transaction(&transaction).into();

    let hash = bus.call(SubmitTransaction { raw: raw.clone() }, &CallContext::new()).await.unwrap();
    assert_eq!(hash, Ok(transaction.hash));
    let Some(Delivery::Event(event)) = announced.next().await else { panic!("the transaction is announced") };
    assert_eq!(event.transaction.transaction.hash, transaction.hash);
    let again = bus.call(SubmitTransaction { raw }, &CallContext::new()).await;
    assert_eq!(again, Ok(Err(PoolRefusal::AlreadyKnown)));
    assert_eq!(pool.pending_since(Some(0)).hashes, [transaction.hash]);

    let commit = Arc::new(advance(&chain, &[transaction], &[(address(0), rich(1))]));
    bus.publish(tenon_api::messages::BlockCommitted { commit });
    while pool.status().pending > 0 {
        tokio::task::yield_now().await;
    }

    following.abort();
}

#[tokio::test]
async fn only_transactions_from_the_network_are_not_local() {
    let chain = fake_chain::chain();
    let folder = tempfile::tempdir().unwrap();
    let options = PoolOptions { journal: Some(folder.path().join("transactions.journal")), ..PoolOptions::for_tests() };
    let pool = open_with(&chain, Fork::Osaka, options);
    let bus = pool.inner.bus.clone();
    crate::register(&bus, &pool).unwrap();

    for (account, transport) in Transport::ALL.into_iter().enumerate() {
        let raw = signed(u8::try_from(account).unwrap(), transfer(0, 9, 9)).into();
        let context = CallContext::new().with_origin(Origin::new(transport, ClientId::INSIDE));
        bus.call(SubmitTransaction { raw }, &context).await.unwrap().unwrap();
    }

    let local: Vec<_> = pool.inner.state.read().local().iter().map(|local| local.sender).collect();
    assert_eq!(Transport::ALL[..2], [Transport::Inside, Transport::Socket]);
    assert_eq!(local, [address(0), address(1)]);
}

#[test]
fn a_truncated_list_of_the_best_never_contains_mined_transactions() {
    let chain = fake_chain::chain();
    let small = Header { gas_limit: 21_000, ..chain.head().header.header().clone() };
    chain.push_header(tenon_chain::seal(small));
    let pool = open(&chain);
    for nonce in 0..5 {
        pool.submit(&signed(0, transfer(nonce, 9, 9)), Source::Operator).unwrap();
    }
    let nonces = || pool.best(Some(1)).iter().map(|best| best.transaction.nonce).collect::<Vec<_>>();
    assert_eq!(nonces(), [0, 1]);

    // The pool has not seen the events of these two blocks.
    let first = advance(&chain, &[], &[(address(0), rich(1))]);
    let second = advance(&chain, &[], &[(address(0), rich(2))]);

    assert_eq!(nonces(), [2, 3]);
    pool.on_committed(&first).unwrap();
    pool.on_committed(&second).unwrap();
    assert_eq!(nonces(), [2, 3]);
}

/// A node that has just signed one transaction for an account that the signature cannot reveal.
struct HasSigned(B256);

impl tenon_api::OwnAccounts for HasSigned {
    fn has_key(&self, _: Address) -> bool {
        false
    }

    fn signer_of(&self, transaction: B256) -> Option<Address> {
        (transaction == self.0).then(|| address(3))
    }
}

#[test]
fn the_sender_of_a_transaction_signed_by_the_node_is_not_recovered() {
    let chain = fake_chain::chain();
    let (own, foreign) = (sign(1, transfer(0, 9, 9)), sign(2, transfer(0, 9, 9)));
    let spec = Arc::new(ChainSpec::ethereum_at(CHAIN_ID, Fork::Osaka));
    let policy = Box::new(EthereumPolicy::new(Arc::clone(&spec)));
    let signed = Arc::new(HasSigned(own.hash));
    let pool = Pool::open(spec, policy, Arc::clone(&chain) as _, signed, Bus::new(), PoolOptions::for_tests()).unwrap();

    for (transaction, sender) in [(own, address(3)), (foreign, address(2))] {
        let hash = pool.submit(&tenon_chain::encode_transaction(&transaction), Source::Operator).unwrap();

        assert_eq!(pool.get(hash).unwrap().sender, sender);
    }
}
