//! Tests of the node's health.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::json;
use tenon_api::{U256, WriteFailure, WriteOutcomes};
use tenon_config::{ByteSize, DatabaseSettings, DevGenesis};
use tenon_storage::Store;

use super::*;
use crate::opened_chain::store_options;

/// A database whose condition the test sets.
#[derive(Default)]
struct Database {
    fails: AtomicBool,
    panics: AtomicBool,
    errors: AtomicU64,
    is_stopped: AtomicBool,
    is_replaced: AtomicBool,
    is_damaged: AtomicBool,
}

impl DatabaseWatch for Database {
    fn writes(&self) -> WriteOutcomes {
        let reason = "No space left on device: /secret/path".to_owned();
        let failure = WriteFailure { since: 7, reason, space_needed: Some(9) };
        WriteOutcomes {
            last_success: Some(5),
            failure: self.fails.load(Ordering::Relaxed).then_some(failure),
            panicking_since: self.panics.load(Ordering::Relaxed).then_some(6),
        }
    }

    fn background(&self) -> Result<BackgroundCondition, StoreError> {
        Ok(BackgroundCondition {
            is_write_stopped: self.is_stopped.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            is_folder_replaced: self.is_replaced.load(Ordering::Relaxed),
            is_damaged: self.is_damaged.load(Ordering::Relaxed),
        })
    }

    fn try_write(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Fixture {
    _folder: tempfile::TempDir,
    database: Arc<Database>,
    health: Arc<Health>,
}

/// The health of a node at block 0 of 1970.
fn fixture(block_interval: BlockInterval, limits: HealthSettings) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let database = Arc::new(Database::default());
    let genesis = DevGenesis { chain_id: 7, gas_limit: 1_000_000, accounts: Vec::new(), balance: U256::ZERO };
    let commit = tenon_native_spec::read_genesis(&genesis.to_json()).unwrap().commit().unwrap();
    let store = Store::open(&folder.path().join("db"), store_options(&DatabaseSettings::default())).unwrap();
    store.initialise(&commit, 7).unwrap();
    let health = Health::new(Parts {
        chain: store,
        database: Arc::clone(&database) as Arc<dyn DatabaseWatch>,
        supervisor: Weak::new(),
        folder: folder.path().to_owned(),
        block_interval,
        old_means_behind: true,
        limits,
        network: None,
        has_network: false,
    });
    Fixture { _folder: folder, database, health }
}

/// A head without a new block for an hour is still within these limits.
fn without_disk() -> HealthSettings {
    HealthSettings { disk_free: ByteSize(0), ..HealthSettings::default() }
}

fn bad(health: &Health) -> Vec<(&'static str, String)> {
    health.report().bad_members().into_iter().map(|(name, state)| (name, state.to_string())).collect()
}

/// The engine of a public network, whose block interval is two seconds.
fn public_network() -> BlockInterval {
    let text = tenon_native_spec::PublicNetwork::by_name("mainnet").unwrap().genesis_text().unwrap();
    let genesis = tenon_native_spec::read_genesis(&text).unwrap();
    BlockInterval::Network(Arc::new(tenon_native_consensus::NativeEngine::new(&genesis.spec).unwrap()))
}

#[test]
fn a_head_older_than_allowed_is_unhealthy_and_eth_syncing_reports_it() {
    let node = fixture(public_network(), without_disk());

    let head = node.health.report().head;

    assert_eq!((head.state, head.number, head.max_age), (State::Old, 0, Some(60)));
    assert_eq!(bad(&node.health), [("head", "old".to_owned())]);
    let zero = BlockNumber(0);
    assert_eq!(node.health.sync_status(), Some(SyncStatus { starting: zero, current: zero, highest: zero }));
}

#[test]
fn heads_are_never_old_without_a_block_interval_or_if_the_operator_disables_it() {
    let of_operator = HealthSettings { head_age: Some(Duration::ZERO), ..without_disk() };
    for node in [fixture(BlockInterval::OnDemand, without_disk()), fixture(public_network(), of_operator)] {
        assert_eq!(bad(&node.health), []);
        assert_eq!(node.health.sync_status(), None);
        assert_eq!(node.health.report().to_json()["head"]["maxAge"], json!(null));
    }
}

#[test]
fn own_blocks_are_expected_only_since_the_start_of_the_node() {
    let node = fixture(BlockInterval::Own(Duration::from_secs(10)), without_disk());

    let head = node.health.report().head;

    assert_eq!((head.state, head.max_age), (State::Ok, Some(300)));
}

#[test]
fn a_database_that_cannot_write_is_not_healthy_until_a_write_succeeds() {
    let node = fixture(BlockInterval::OnDemand, without_disk());
    assert!(node.health.report().is_healthy());

    node.database.fails.store(true, Ordering::Relaxed);
    let report = node.health.report();
    assert!(!report.is_healthy());
    let expected =
        json!({ "state": "writesFail", "lastWrite": 5, "failingSince": 7, "spaceNeeded": 9, "backgroundErrors": 0 });
    assert_eq!(report.member("database"), expected);
    assert!(!report.to_json().to_string().contains("secret"), "callers must not see paths");

    node.database.fails.store(false, Ordering::Relaxed);
    let report = node.health.report();
    assert!(report.is_healthy());
    assert_eq!(report.member("database")["spaceNeeded"], json!(null));
}

#[test]
fn of_several_problems_of_a_database_the_report_names_the_cause() {
    let node = fixture(BlockInterval::OnDemand, without_disk());
    let state = || {
        node.health.check(FailedModules::default(), 0);
        bad(&node.health)
    };
    let database = &node.database;

    database.errors.store(1, Ordering::Relaxed);
    assert_eq!(state(), [("database", "backgroundErrors".to_owned())]);
    database.is_stopped.store(true, Ordering::Relaxed);
    assert_eq!(state(), [("database", "writesStopped".to_owned())]);
    database.panics.store(true, Ordering::Relaxed);
    assert_eq!(state(), [("database", "writesPanic".to_owned())]);
    assert_eq!(node.health.report().member("database")["failingSince"], json!(6));
    database.is_damaged.store(true, Ordering::Relaxed);
    assert_eq!(state(), [("database", "damaged".to_owned())]);
    database.fails.store(true, Ordering::Relaxed);
    assert_eq!(state(), [("database", "writesFail".to_owned())]);
    database.is_replaced.store(true, Ordering::Relaxed);
    assert_eq!(state(), [("database", "folderReplaced".to_owned())]);
}

#[test]
fn a_database_whose_folder_was_replaced_is_unhealthy_until_it_is_back() {
    let node = fixture(BlockInterval::OnDemand, without_disk());

    for (is_replaced, expected) in [(true, vec![("database", "folderReplaced".to_owned())]), (false, vec![])] {
        node.database.is_replaced.store(is_replaced, Ordering::Relaxed);
        node.health.check(FailedModules::default(), 0);
        assert_eq!(bad(&node.health), expected);
    }
}

#[test]
fn background_errors_count_for_a_while_after_the_last_one() {
    let node = fixture(BlockInterval::OnDemand, without_disk());
    let forgetful = HealthSettings { database_errors: Duration::ZERO, ..without_disk() };
    let other = fixture(BlockInterval::OnDemand, forgetful);

    for node in [&node, &other] {
        node.database.errors.store(2, Ordering::Relaxed);
        node.health.check(FailedModules::default(), 0);
    }

    assert_eq!(bad(&node.health), [("database", "backgroundErrors".to_owned())]);
    assert_eq!(node.health.report().member("database")["backgroundErrors"], json!(2));
    assert_eq!(bad(&other.health), []);
}

#[test]
fn a_stopped_engine_a_full_disk_few_peers_and_failed_parts_each_have_a_state() {
    let limits = HealthSettings { disk_free: ByteSize(u64::MAX), peers: 3, ..HealthSettings::default() };
    let node = fixture(BlockInterval::OnDemand, limits);
    node.database.is_stopped.store(true, Ordering::Relaxed);

    let named = |name: &str| vec![name.to_owned()];
    node.health.check(FailedModules { parts: named("pool"), built_in: named("eth"), others: named("mine") }, 2);

    let expected =
        [("peers", "few"), ("database", "writesStopped"), ("disk", "low"), ("actors", "failed"), ("plugins", "failed")];
    assert_eq!(bad(&node.health), expected.map(|(name, state)| (name, state.to_owned())));
    let report = node.health.report();
    assert_eq!(report.member("actors"), json!({ "state": "failed", "failed": ["pool"] }));
    let plugins = json!({ "state": "failed", "failed": ["eth"], "othersFailed": ["mine"] });
    assert_eq!(report.member("plugins"), plugins);
    assert_eq!(report.member("peers"), json!({ "state": "few", "count": 2, "least": 3 }));
    assert_eq!(report.to_json()["healthy"], json!(false));
}

#[test]
fn a_failed_third_party_plugin_is_listed_and_does_not_make_the_node_unhealthy() {
    let node = fixture(BlockInterval::OnDemand, without_disk());

    node.health.check(FailedModules { others: vec!["mine".to_owned()], ..FailedModules::default() }, 0);

    assert!(node.health.report().is_healthy());
    assert_eq!(node.health.report().member("plugins")["othersFailed"], json!(["mine"]));
}

#[test]
fn logs_each_change_once() {
    let node = fixture(BlockInterval::OnDemand, without_disk());
    node.database.fails.store(true, Ordering::Relaxed);

    let said = node.health.say_changes(Vec::new());
    assert_eq!(said, ["database"]);
    assert_eq!(node.health.say_changes(said), ["database"]);

    node.database.fails.store(false, Ordering::Relaxed);
    assert_eq!(node.health.say_changes(vec!["database"]), [""; 0]);
}
