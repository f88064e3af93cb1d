//! Determines the sub-protocols that both sides support, and the offsets of their codes (`docs/spec/p2p.md` 9).

/// Codes below this number belong to the base protocol.
pub const BASE_PROTOCOL_LENGTH: u64 = 16;

/// A sub-protocol and its version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability {
    /// Name.
    pub name: String,
    /// Version.
    pub version: u64,
}

/// A sub-protocol that this node supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedProtocol {
    /// Name and version.
    pub capability: Capability,
    /// Number of message codes.
    pub length: u64,
}

impl OfferedProtocol {
    /// An offer with this name, version and number of codes.
    pub fn new(name: &str, version: u64, length: u64) -> Self {
        Self { capability: Capability { name: name.to_owned(), version }, length }
    }
}

/// A sub-protocol that both sides support.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgreedProtocol {
    /// Name and version.
    pub capability: Capability,
    /// The code on the wire of the sub-protocol's code 0.
    pub offset: u64,
    /// Number of message codes.
    pub length: u64,
}

/// Returns the common sub-protocols: the highest common version of each name, with offsets assigned in ascending order
/// of the names.
pub fn agree_on_protocols(ours: &[OfferedProtocol], theirs: &[Capability]) -> Vec<AgreedProtocol> {
    let mut theirs: Vec<&Capability> = theirs.iter().collect();
    theirs.sort_unstable();
    let mut agreed: Vec<AgreedProtocol> = Vec::new();
    let mut next = BASE_PROTOCOL_LENGTH;
    for capability in theirs {
        let Some(offer) = ours.iter().find(|offer| offer.capability == *capability) else { continue };
        // A higher version of the same name replaces the previous entry, which is the last one because the names are
        // sorted.
        if agreed.last().is_some_and(|last| last.capability.name == capability.name)
            && let Some(last) = agreed.pop()
        {
            next = last.offset;
        }
        agreed.push(AgreedProtocol { capability: capability.clone(), offset: next, length: offer.length });
        next += offer.length;
    }
    agreed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theirs(names: &[(&str, u64)]) -> Vec<Capability> {
        names.iter().map(|(name, version)| Capability { name: (*name).to_owned(), version: *version }).collect()
    }

    fn ours(names: &[(&str, u64, u64)]) -> Vec<OfferedProtocol> {
        names.iter().map(|(name, version, length)| OfferedProtocol::new(name, *version, *length)).collect()
    }

    fn result(ours: &[OfferedProtocol], theirs: &[Capability]) -> Vec<(String, u64, u64)> {
        agree_on_protocols(ours, theirs)
            .into_iter()
            .map(|agreed| (agreed.capability.name, agreed.capability.version, agreed.offset - BASE_PROTOCOL_LENGTH))
            .collect()
    }

    /// `docs/spec/p2p.md` 26.6.
    #[test]
    fn the_highest_common_version_of_a_name_wins() {
        let named = |name: &str, version, offset| (name.to_owned(), version, offset);
        assert_eq!(result(&ours(&[("b", 0, 1)]), &theirs(&[("a", 0)])), []);
        assert_eq!(result(&[], &theirs(&[("a", 0)])), []);
        assert_eq!(
            result(
                &ours(&[("match1", 0, 0), ("match2", 0, 0), ("remote", 0, 0)]),
                &theirs(&[("local", 0), ("match1", 0), ("match2", 0)])
            ),
            [named("match1", 0, 0), named("match2", 0, 0)]
        );
        assert_eq!(result(&ours(&[("", 2, 0), ("", 3, 0)]), &theirs(&[("", 1), ("", 2)])), [named("", 2, 0)]);
        assert_eq!(
            result(&ours(&[("", 2, 0), ("", 3, 0)]), &theirs(&[("", 1), ("", 2), ("", 3), ("", 4)])),
            [named("", 3, 0)]
        );
        assert_eq!(
            result(
                &ours(&[("", 1, 1), ("", 2, 2), ("", 3, 3), ("a", 0, 0)]),
                &theirs(&[("", 1), ("", 2), ("", 3), ("a", 0)])
            ),
            [named("", 3, 0), named("a", 0, 3)]
        );
        let eth = ours(&[("eth", 100, 227), ("eth", 63, 17), ("eth", 62, 8)]);
        assert_eq!(
            result(&eth, &theirs(&[("eth", 62), ("eth", 63), ("eth", 100), ("foo", 1)])),
            [named("eth", 100, 0)]
        );
    }
}
