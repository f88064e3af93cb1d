//! Arrivals and departures, from comparing the connected devices with the earlier ones.

use std::collections::BTreeMap;

use crate::Found;

/// A difference between two listings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The device was connected.
    Arrived(Found),
    /// The device was disconnected. Its wallet is closed.
    Departed(Found),
}

/// The devices of the latest listing, by path.
///
/// Another serial number at a known path is another device, and the old one has departed.
#[derive(Clone, Debug, Default)]
pub struct Connected {
    devices: BTreeMap<String, Found>,
}

/// Maximum number of devices. A machine that reports more has a faulty transport.
const MAX_DEVICES: usize = 64;

impl Connected {
    /// Updates the devices from a new listing. Returns departures first, then arrivals, each ordered by path. Keeps at
    /// most 64 devices, the first ones by path.
    pub fn update(&mut self, now: impl IntoIterator<Item = Found>) -> Vec<Change> {
        let mut found: BTreeMap<String, Found> = BTreeMap::new();
        for device in now {
            found.insert(device.path.clone(), device);
            if found.len() > MAX_DEVICES {
                found.pop_last();
            }
        }
        let before = std::mem::replace(&mut self.devices, found);
        let departed = before.values().filter(|old| self.devices.get(&old.path) != Some(*old));
        let arrived = self.devices.values().filter(|new| before.get(&new.path) != Some(*new));
        departed.cloned().map(Change::Departed).chain(arrived.cloned().map(Change::Arrived)).collect()
    }

    /// The devices, by path.
    pub fn devices(&self) -> impl Iterator<Item = &Found> {
        self.devices.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(path: &str, serial: &str) -> Found {
        Found { path: path.into(), serial: Some(serial.into()), transport: "hid", is_bootloader: false }
    }

    #[test]
    fn reports_arrivals_and_departures() {
        let mut connected = Connected::default();

        assert_eq!(
            connected.update([device("b", "2"), device("a", "1")]),
            [Change::Arrived(device("a", "1")), Change::Arrived(device("b", "2"))]
        );
        assert_eq!(connected.update([device("a", "1"), device("b", "2")]), []);
        assert_eq!(connected.update([device("b", "2")]), [Change::Departed(device("a", "1"))]);
    }

    #[test]
    fn takes_another_serial_number_at_a_path_for_another_device() {
        let mut connected = Connected::default();
        connected.update([device("a", "1")]);

        let changes = connected.update([device("a", "2")]);

        assert_eq!(changes, [Change::Departed(device("a", "1")), Change::Arrived(device("a", "2"))]);
    }

    #[test]
    fn keeps_a_bounded_number() {
        let mut connected = Connected::default();

        let changes = connected.update((0..1000).map(|number| device(&format!("{number:04}"), "1")));

        assert_eq!((changes.len(), connected.devices().count()), (MAX_DEVICES, MAX_DEVICES));
        assert!(connected.devices().all(|device| device.path.as_str() < "0064"));
    }
}
