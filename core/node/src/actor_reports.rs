//! What modules report of their supervised actors.

use std::sync::{Arc, Weak};

use tenon_api::messages::{ActorHealth, MailboxUse};
use tenon_modules::{ActorProbe, ActorReport};
use tenon_supervisor::{ActorState, Supervisor};

/// Reports the actors with these names as one.
pub(crate) fn probe(supervisor: &Arc<Supervisor>, names: &'static [&'static str]) -> ActorProbe {
    // Weak: the node stops its supervisor itself, as its only owner.
    let supervisor = Arc::downgrade(supervisor);
    Box::new(move || {
        let actors = supervisor.upgrade().map(|supervisor| supervisor.health()).unwrap_or_default();
        actors.into_iter().filter(|actor| names.contains(&actor.name)).fold(ActorReport::default(), with)
    })
}

/// Why an actor has failed for good, if it has.
pub(crate) fn failure(supervisor: &Weak<Supervisor>, name: &str) -> Option<String> {
    match supervisor.upgrade()?.health().into_iter().find(|actor| actor.name == name)?.state {
        ActorState::Failed { reason } => Some(reason),
        _ => None,
    }
}

/// Adds an actor to the report: adds up restarts and messages, and keeps the worst health and the last known fault.
fn with(report: ActorReport, actor: tenon_supervisor::ActorHealth) -> ActorReport {
    let (health, failure) = match actor.state {
        ActorState::Running => (ActorHealth::Running, None),
        ActorState::Restarting => (ActorHealth::Restarting, None),
        ActorState::Stopped => (ActorHealth::Stopped, None),
        ActorState::Failed { reason } => (ActorHealth::Failed, Some(reason)),
    };
    let MailboxUse { waiting, capacity } = report.mailbox.unwrap_or_default();
    ActorReport {
        health: report.health.max(Some(health)),
        restarts: report.restarts + actor.restarts,
        last_fault: failure.or(actor.last_panic).or(report.last_fault),
        mailbox: Some(MailboxUse {
            waiting: waiting + actor.waiting as u64,
            capacity: capacity + actor.capacity as u64,
        }),
        ..report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(name: &'static str, state: ActorState) -> tenon_supervisor::ActorHealth {
        tenon_supervisor::ActorHealth { name, state, restarts: 0, last_panic: None, waiting: 0, capacity: 64 }
    }

    #[test]
    fn several_actors_are_reported_by_their_sums_and_the_worst_health() {
        let first = tenon_supervisor::ActorHealth {
            restarts: 2,
            last_panic: Some("no wallet".to_owned()),
            waiting: 3,
            ..actor("device 1", ActorState::Restarting)
        };
        let second = tenon_supervisor::ActorHealth { waiting: 1, ..actor("device 2", ActorState::Running) };

        let report = [first, second].into_iter().fold(ActorReport::default(), with);

        assert_eq!(report.health, Some(ActorHealth::Restarting));
        assert_eq!(report.mailbox, Some(MailboxUse { waiting: 4, capacity: 128 }));
        assert_eq!((report.restarts, report.last_fault.as_deref()), (2, Some("no wallet")));
    }

    #[test]
    fn the_fault_of_a_failed_actor_is_its_reason() {
        let reason = "no key".to_owned();

        let report = with(ActorReport::default(), actor("chain", ActorState::Failed { reason: reason.clone() }));

        assert_eq!((report.health, report.last_fault), (Some(ActorHealth::Failed), Some(reason)));
    }
}
