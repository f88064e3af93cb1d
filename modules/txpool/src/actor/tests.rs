//! Tests of the pool's actor: what it applies, missed events, and panics.

use std::sync::atomic::{AtomicBool, Ordering};

use tenon_api::{Account, Address, B256, Header, OwnAccounts, Transaction, U256, messages::PoolStatus};
use tenon_bus::Bus;
use tenon_chain::{ChainSpec, Fork};
use tenon_memory_chain::MemoryChain;
use tenon_supervisor::{ActorHealth, ActorState};
use tenon_txpool_interface::Source;

use super::*;
use crate::{
    EthereumPolicy, PoolOptions,
    fake_chain::{self, CHAIN_ID, address, advance, sign, signed, transfer},
};

/// While it is armed, the actor's first query commits a block without an event, and panics.
struct PanickingAccounts {
    is_armed: AtomicBool,
    chain: Arc<MemoryChain>,
    mined: Vec<Transaction>,
}

impl OwnAccounts for PanickingAccounts {
    fn has_key(&self, _: Address) -> bool {
        false
    }

    fn signer_of(&self, _: B256) -> Option<Address> {
        if self.is_armed.swap(false, Ordering::SeqCst) {
            advance(&self.chain, &self.mined, &[(address(0), after(1))]);
            panic!("on purpose, once");
        }
        None
    }
}

/// An account with 100 ether and this nonce.
fn after(nonce: u64) -> Account {
    Account { nonce, balance: U256::from(10).pow(U256::from(20)), ..Account::default() }
}

fn open(chain: &Arc<MemoryChain>, own: Arc<dyn OwnAccounts>, options: PoolOptions) -> Pool {
    let spec = Arc::new(ChainSpec::ethereum_at(CHAIN_ID, Fork::Osaka));
    let policy = Box::new(EthereumPolicy::new(Arc::clone(&spec)));
    Pool::open(spec, policy, Arc::clone(chain) as _, own, Bus::new(), options).unwrap()
}

fn without_keys(chain: &Arc<MemoryChain>) -> Pool {
    open(chain, Arc::new(fake_chain::KeysOf(200)), PoolOptions::for_tests())
}

async fn wait_for(what: &str, is_true: impl Fn() -> bool) {
    let waiting = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect(what);
}

fn health(supervisor: &Supervisor) -> ActorHealth {
    supervisor.health().into_iter().find(|health| health.name == ACTOR).unwrap()
}

async fn stop(supervisor: Supervisor, feed: tokio::task::JoinHandle<()>) {
    feed.abort();
    assert!(supervisor.stop(Duration::from_secs(10)).await.is_empty());
}

#[tokio::test]
async fn the_successor_of_a_panicked_actor_reads_the_head_and_follows_the_chain() {
    let chain = fake_chain::chain();
    let transactions: Vec<_> = (0..3).map(|nonce| sign(0, transfer(nonce, 9, 9))).collect();
    let own = PanickingAccounts {
        is_armed: AtomicBool::new(false),
        chain: Arc::clone(&chain),
        mined: transactions[..1].to_vec(),
    };
    let own = Arc::new(own);
    let pool = open(&chain, Arc::clone(&own) as _, PoolOptions::for_tests());
    for nonce in 0..3 {
        pool.submit(&signed(0, transfer(nonce, 9, 9)), Source::Client).unwrap();
    }
    let (bus, supervisor) = (pool.inner.bus.clone(), Supervisor::new().unwrap());
    let feed = tokio::spawn(spawn_pool(&supervisor, &pool).unwrap().run());
    // A transaction of another branch's block, which the actor offers to the pool again.
    let other = MemoryChain::default();
    other.push_header(tenon_chain::seal(Header { number: 7, ..Header::default() }));
    let lost = advance(&other, &[sign(1, transfer(0, 9, 9))], &[]);
    let lost = RecoveredBlock { senders: vec![address(1)], ..RecoveredBlock::clone(&lost.block) };

    own.is_armed.store(true, Ordering::SeqCst);
    bus.publish(BlocksUnwound { blocks: Arc::new(vec![Arc::new(lost)]) });
    wait_for("the block without an event", || pool.status().pending == 2).await;
    wait_for("the restart", || health(&supervisor).restarts == 1).await;
    let failed = health(&supervisor);
    let commit = Arc::new(advance(&chain, &transactions[1..2], &[(address(0), after(2))]));
    bus.publish(BlockCommitted { commit });
    wait_for("the next block", || pool.status().pending == 1).await;

    assert_eq!((failed.state, failed.last_panic.as_deref()), (ActorState::Running, Some("on purpose, once")));
    assert!(pool.get(transactions[2].hash).is_some());
    stop(supervisor, feed).await;
}

#[tokio::test]
async fn missed_events_make_the_pool_read_the_head() {
    let chain = fake_chain::chain();
    let pool = without_keys(&chain);
    pool.submit(&signed(0, transfer(0, 9, 9)), Source::Client).unwrap();
    let (bus, supervisor) = (pool.inner.bus.clone(), Supervisor::new().unwrap());
    let feed = spawn_pool(&supervisor, &pool).unwrap();
    // More than a subscription holds; the last one is the head.
    let old = Arc::new(advance(&fake_chain::chain(), &[], &[]));
    for _ in 0..300 {
        bus.publish(BlockCommitted { commit: Arc::clone(&old) });
    }
    advance(&chain, &[], &[(address(0), after(1))]);

    let feed = tokio::spawn(feed.run());

    wait_for("the head", || pool.status() == PoolStatus::default()).await;
    stop(supervisor, feed).await;
}

#[tokio::test]
async fn the_pool_is_at_the_head_before_the_actor_has_handled_anything() {
    let chain = fake_chain::chain();
    let pool = without_keys(&chain);
    pool.submit(&signed(0, transfer(0, 9, 9)), Source::Client).unwrap();
    advance(&chain, &[], &[(address(0), after(1))]);
    let supervisor = Supervisor::new().unwrap();

    let feed = spawn_pool(&supervisor, &pool).unwrap();

    assert_eq!(pool.status(), PoolStatus::default());
    stop(supervisor, tokio::spawn(feed.run())).await;
}

#[tokio::test]
async fn old_transactions_are_evicted_on_time() {
    let chain = fake_chain::chain();
    let lifetime = Duration::from_millis(10);
    let pool = open(&chain, Arc::new(fake_chain::KeysOf(200)), PoolOptions { lifetime, ..PoolOptions::for_tests() });
    // Behind a gap.
    pool.submit(&signed(0, transfer(1, 9, 9)), Source::Client).unwrap();
    let supervisor = Supervisor::new().unwrap();

    let feed = tokio::spawn(spawn_pool(&supervisor, &pool).unwrap().run());

    wait_for("the eviction", || pool.status() == PoolStatus::default()).await;
    stop(supervisor, feed).await;
}

#[tokio::test]
async fn the_feed_ends_with_its_actor() {
    let pool = without_keys(&fake_chain::chain());
    let supervisor = Supervisor::new().unwrap();
    let feed = spawn_pool(&supervisor, &pool).unwrap();
    assert!(supervisor.stop_one(ACTOR, Duration::from_secs(10)).await);

    let commit = Arc::new(advance(&fake_chain::chain(), &[], &[]));
    pool.inner.bus.publish(BlockCommitted { commit });

    tokio::time::timeout(Duration::from_secs(20), feed.run()).await.unwrap();
}
