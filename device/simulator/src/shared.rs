//! What a running device shares with its handle: observations, the planned fault, the screen.

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{Fault, FaultPlan};

/// Maximum number of message ids that are remembered.
pub(crate) const MAX_RECORDED_MESSAGES: usize = 10_000;

/// Observations for tests.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Ids of the handled messages, up to the first 10,000.
    pub received: Vec<u16>,
    /// Number of confirmed screens.
    pub confirmations: u64,
    /// Number of signatures.
    pub signatures: u64,
}

/// State shared by the handle and the device. The locks are not held across an await.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) observed: Mutex<Observed>,
    pub(crate) fault: Mutex<Option<FaultPlan>>,
    pub(crate) device_id: Mutex<String>,
    /// The text on the display that a person types elsewhere, such as the keypad of a PIN.
    pub(crate) screen: watch::Sender<Option<String>>,
}

impl Shared {
    pub(crate) fn observe(&self, change: impl FnOnce(&mut Observed)) {
        change(&mut self.observed.lock());
    }

    pub(crate) fn show(&self, text: Option<String>) {
        self.screen.send_replace(text);
    }

    pub(crate) fn set_device_id(&self, id: String) {
        *self.device_id.lock() = id;
    }

    /// Takes the fault of the message that is being sent, if it has one.
    pub(crate) fn take_fault(&self) -> Option<Fault> {
        let mut plan = self.fault.lock();
        match plan.as_mut() {
            Some(due) if due.after == 0 => plan.take().map(|plan| plan.fault),
            Some(later) => {
                later.after -= 1;
                None
            }
            None => None,
        }
    }

    /// The fault of the next message, without taking it.
    pub(crate) fn next_fault(&self) -> Option<Fault> {
        self.fault.lock().filter(|plan| plan.after == 0).map(|plan| plan.fault)
    }
}
