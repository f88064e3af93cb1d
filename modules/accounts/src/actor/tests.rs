//! Tests of the actor of key files: what its successor does after a panic, and its end.

use tenon_api::{
    AccountRefusal, SecretText,
    messages::{UnlockAccount, WalletChange, WalletChanged},
};
use tenon_bus::{CallContext, Delivery};
use tenon_supervisor::{ActorHealth, ActorState};

use super::*;
use crate::tests::{Node, key_folder};

const LIMIT: Duration = Duration::from_secs(20);

fn health(supervisor: &Supervisor) -> ActorHealth {
    supervisor.health().into_iter().find(|health| health.name == ACTOR).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_successor_of_a_panicked_actor_locks_accounts_and_follows_the_folder() {
    let node = Node::new();
    let supervisor = Supervisor::new().unwrap();
    let feed = spawn_accounts(&supervisor, &node.directory).unwrap();
    let mut events = node.bus.subscribe::<WalletChanged>();
    let unlock = UnlockAccount { address: node.account, password: SecretText::from("pass"), seconds: 1 };
    node.bus.call(unlock, &CallContext::new()).await.unwrap();
    key_folder(node.folder.path()).create(b"").unwrap();

    feed.keystore.as_ref().unwrap().1.send(AccountsMessage::Panic).await.unwrap();
    let restarted = async {
        while health(&supervisor).restarts == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LIMIT, restarted).await.unwrap();
    let running = tokio::spawn(feed.run());

    let mut changes = Vec::new();
    while changes.len() < 3 {
        let Some(Delivery::Event(event)) = tokio::time::timeout(LIMIT, events.next()).await.unwrap() else {
            panic!("an event")
        };
        changes.push(event.change);
    }
    for expected in [WalletChange::Opened, WalletChange::Arrived, WalletChange::Locked] {
        assert!(changes.contains(&expected), "{changes:?}");
    }
    let health = health(&supervisor);
    assert_eq!((health.state, health.last_panic.as_deref()), (ActorState::Running, Some("on purpose")));
    running.abort();
    assert!(supervisor.stop(LIMIT).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_can_be_locked_while_the_actor_is_stopped() {
    let node = Node::new();
    let supervisor = Supervisor::new().unwrap();
    let feed = spawn_accounts(&supervisor, &node.directory).unwrap();
    let unlock = UnlockAccount { address: node.account, password: SecretText::from("pass"), seconds: 0 };
    node.bus.call(unlock, &CallContext::new()).await.unwrap();

    assert!(supervisor.stop_one(ACTOR, LIMIT).await);
    drop(feed);
    node.directory.lock(node.account);

    let signed = node.directory.sign_block(node.account, tenon_api::B256::ZERO);
    assert!(matches!(signed, Err(crate::AccountsError::Refused(AccountRefusal::Locked))));
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_keys_are_removed_after_the_actor_has_failed_for_good() {
    let node = Node::new();
    let supervisor = Supervisor::new().unwrap();
    let feed = spawn_accounts(&supervisor, &node.directory).unwrap();
    let mailbox = feed.keystore.as_ref().unwrap().1.clone();
    let mut events = node.bus.subscribe::<WalletChanged>();
    // Each panic but the last is followed by a restart.
    while mailbox.send(AccountsMessage::Panic).await.is_ok() {}
    assert!(matches!(health(&supervisor).state, ActorState::Failed { .. }));
    let running = tokio::spawn(feed.run());

    let unlock = UnlockAccount { address: node.account, password: SecretText::from("pass"), seconds: 1 };
    node.bus.call(unlock, &CallContext::new()).await.unwrap();

    for expected in [WalletChange::Opened, WalletChange::Locked] {
        let delivery = tokio::time::timeout(LIMIT, events.next()).await.unwrap();
        assert!(matches!(delivery, Some(Delivery::Event(event)) if event.change == expected));
    }
    running.abort();
    assert!(supervisor.stop(LIMIT).await.is_empty());
}
