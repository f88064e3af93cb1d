//! The traits of bus messages.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::shown_name;

/// The stable number of a message type. Numbers are assigned once and never reused.
///
/// Requests use `0x0001..=0x7fff`, grouped by the module that answers; events use [`Topic::FIRST_EVENT`] to `0xffff`.
/// Each type states its number where it is declared; `schema.rs` lists all types, and a test refuses equal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Topic(pub u32);

impl Topic {
    /// The lowest topic of an event.
    pub const FIRST_EVENT: Self = Self(0x8000);

    /// Whether it is the topic of an event and not of a request.
    pub const fn is_event(self) -> bool {
        self.0 >= Self::FIRST_EVENT.0
    }
}

/// The position of an event among all events of a bus. A later event has a higher one; 0 is before all events.
/// Positions are compared only within one run of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventPosition(pub u64);

impl EventPosition {
    /// The form in which it crosses the plugin boundary.
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// Reads [`EventPosition::to_bytes`]; `None` if it is anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(u64::from_le_bytes(bytes)))
    }
}

/// The permission that a caller needs before the host passes its request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, EnumString, IntoStaticStr, VariantArray)]
#[non_exhaustive]
pub enum Capability {
    /// Read blocks, state, receipts, logs and the pool.
    ReadChain,
    /// Run the EVM: calls, estimates, traces.
    CallEvm,
    /// Submit transactions to the pool.
    SubmitTransactions,
    /// Use keys of this node.
    Sign,
    /// Change the node: head, peers, modules.
    Administer,
    /// Read settings and facts about the node.
    ReadNode,
    /// Keep records in a storage space of its own.
    Storage,
}

impl Capability {
    /// Every capability.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The name at the plugin boundary and in settings.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The capability with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// Returns whether it must be granted by its own name and is not included in `all`, because it lets a plugin move
    /// funds or change the node.
    pub const fn is_granted_by_name_only(self) -> bool {
        matches!(self, Self::Sign | Self::Administer)
    }

    /// The capabilities that a list of names grants. `all` stands for every capability except `Sign` and `Administer`.
    ///
    /// # Errors
    /// If a name is unknown. The text repeats it and lists the known ones.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Self>, String> {
        let mut granted = Vec::new();
        for name in names.into_iter().map(str::trim) {
            let named = match (name, Self::from_name(name)) {
                ("all", _) => {
                    Self::ALL.iter().copied().filter(|capability| !capability.is_granted_by_name_only()).collect()
                }
                (_, Some(capability)) => vec![capability],
                (_, None) => {
                    let known = Self::ALL.iter().map(|capability| capability.name()).collect::<Vec<_>>().join(", ");
                    let name = shown_name(name);
                    return Err(format!(
                        "there is no capability `{name}`; there are: {known}, and `all` for all but Sign \
                        and Administer"
                    ));
                }
            };
            granted.extend(named);
        }
        let is_granted = |capability: &Self| granted.contains(capability);
        Ok(Self::ALL.iter().copied().filter(is_granted).collect())
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CapabilitySet(u16);

impl CapabilitySet {
    /// Every capability.
    pub const ALL: Self = Self(u16::MAX);

    /// Whether it contains a capability.
    pub const fn contains(self, capability: Capability) -> bool {
        self.0 & Self::bit(capability) != 0
    }

    /// The capabilities that are in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn bit(capability: Capability) -> u16 {
        1 << capability as u16
    }
}

impl Default for CapabilitySet {
    /// [`CapabilitySet::ALL`].
    fn default() -> Self {
        Self::ALL
    }
}

impl FromIterator<Capability> for CapabilitySet {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        Self(capabilities.into_iter().fold(0, |bits, capability| bits | Self::bit(capability)))
    }
}

/// A query or command with exactly one answer.
pub trait Request: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Type of the answer.
    type Reply: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// The stable number of this request.
    const TOPIC: Topic;
    /// The name in logs and errors.
    const NAME: &'static str;
    /// Raised whenever the encoding of the request or its reply changes.
    const SCHEMA: u16 = 1;
    /// Capability that a plugin needs to send it.
    const CAPABILITY: Capability;
    /// Whether it holds passwords or keys. Its encoding is then wiped after use.
    const HAS_SECRETS: bool = false;
}

/// A notification to subscribers. Cloning must be cheap (`Arc` inside).
pub trait Event: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// The stable number of this event.
    const TOPIC: Topic;
    /// The name in logs and errors.
    const NAME: &'static str;
    /// Raised whenever the encoding changes.
    const SCHEMA: u16 = 1;
    /// Capability that a plugin needs to receive it.
    const CAPABILITY: Capability;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_capabilities_contain_what_both_have() {
        let [read, evm, sign] = [Capability::ReadChain, Capability::CallEvm, Capability::Sign];
        let both = CapabilitySet::from_iter([read, evm]).and(CapabilitySet::from_iter([evm, sign]));

        assert!(both.contains(evm) && !both.contains(read) && !both.contains(sign));
        assert!(Capability::ALL.iter().all(|capability| CapabilitySet::ALL.contains(*capability)));
        assert!(Capability::ALL.iter().all(|capability| !CapabilitySet::from_iter([]).contains(*capability)));
    }

    #[test]
    fn all_grants_neither_sign_nor_administer() {
        let all = Capability::from_names(["all"]).unwrap();
        let with_keys = Capability::from_names(["all", " Sign"]).unwrap();

        let expected = [Capability::ReadChain, Capability::CallEvm, Capability::SubmitTransactions];
        assert_eq!(all, [&expected[..], &[Capability::ReadNode, Capability::Storage]].concat());
        assert!(with_keys.contains(&Capability::Sign) && !with_keys.contains(&Capability::Administer));
        assert_eq!(Capability::from_names([]), Ok(Vec::new()));
    }

    #[test]
    fn an_unknown_capability_is_named_with_the_known_ones() {
        let error = Capability::from_names(["ReadChain", "Fly"]).unwrap_err();

        assert!(error.starts_with("there is no capability `Fly`; there are: ReadChain, CallEvm, "), "{error}");
        assert!(error.ends_with("Storage, and `all` for all but Sign and Administer"), "{error}");
    }
}
