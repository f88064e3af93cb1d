//! When a node's key signs: after restarts, and after the operator has changed it.

use std::sync::atomic::Ordering;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tenon_native_consensus::v2::MasternodeKey;

use super::node::{Network, Node, Running};
use super::ports::ActorOutput;
use super::world::network_of;
use crate::actor::Input;

fn node_of(network: &Network, key: &MasternodeKey) -> Node {
    let node = Node::new(0, key.clone(), network);
    node.clock.set(1_700_000_000_000);
    node
}

/// Starts the node with this key and its stored records.
fn started<'a>(node: &'a mut Node, network: &Network, key: &MasternodeKey) -> &'a mut Running {
    node.key = key.clone();
    node.start(network);
    node.running.as_mut().unwrap()
}

impl Running {
    fn signs(&self) -> bool {
        self.actor.key().is_some()
    }

    /// The timers that the actor has started since the last call.
    fn timers(&self) -> Vec<Input> {
        let outputs = self.outbox.take().into_iter();
        outputs
            .filter_map(|output| if let ActorOutput::Later(_, input) = output { Some(input) } else { None })
            .collect()
    }

    /// Lets the end of the wait of a new key pass. Returns whether there was one.
    fn ends_listening(&mut self) -> bool {
        let ends: Vec<_> = self.timers().into_iter().filter(|input| matches!(input, Input::Arm(_))).collect();
        let has_listened = !ends.is_empty();
        ends.into_iter().for_each(|end| self.handle(end));
        has_listened
    }
}

/// Lets the first countdown end: a masternode then signs a timeout.
fn end_countdown(running: &mut Running) {
    running.handle(Input::Countdown(1));
}

#[test]
fn a_key_signs_at_once_after_a_restart_only_if_it_was_the_last_to_sign() {
    let (network, keys) = network_of(4, 1, &mut StdRng::seed_from_u64(1));
    let mut node = node_of(&network, &keys[0]);
    let running = started(&mut node, &network, &keys[0]);
    assert!(!running.signs());
    assert!(running.ends_listening() && running.signs());

    // It has signed nothing yet.
    let running = started(&mut node, &network, &keys[0]);
    assert!(!running.signs());
    assert!(running.ends_listening());
    end_countdown(running);

    assert!(started(&mut node, &network, &keys[0]).signs());

    // Another key, and then the first one again.
    let running = started(&mut node, &network, &keys[1]);
    assert!(!running.signs());
    assert!(running.ends_listening());
    end_countdown(running);
    assert!(started(&mut node, &network, &keys[1]).signs());
    assert!(!started(&mut node, &network, &keys[0]).signs());
}

#[test]
fn a_key_that_is_no_masternodes_leaves_the_record_to_the_one_that_has_signed() {
    let (network, keys) = network_of(4, 1, &mut StdRng::seed_from_u64(1));
    let stranger = MasternodeKey::from_bytes([9; 32]).unwrap();
    let mut node = node_of(&network, &keys[0]);
    let running = started(&mut node, &network, &keys[0]);
    running.ends_listening();
    end_countdown(running);

    let running = started(&mut node, &network, &stranger);
    running.ends_listening();
    end_countdown(running);

    assert!(!started(&mut node, &network, &stranger).signs());
    assert!(started(&mut node, &network, &keys[0]).signs());
}

#[test]
fn a_sync_interrupts_the_wait_of_a_new_key() {
    let (network, keys) = network_of(4, 1, &mut StdRng::seed_from_u64(1));
    let mut node = node_of(&network, &keys[0]);
    let running = started(&mut node, &network, &keys[0]);

    running.syncing.store(true, Ordering::SeqCst);
    assert!(running.ends_listening());
    assert!(!running.signs());
    // The change was noticed with the timer's message, although its own message was lost.
    running.syncing.store(false, Ordering::SeqCst);
    running.handle(Input::SyncingChanged);
    assert!(!running.signs());
    assert!(running.ends_listening() && running.signs());
}
