//! The reference's names of what Tenon's interface calls otherwise (`design.md` 7).

/// Namespaces of native chains: the reference's name, and ours.
pub const NAMESPACE_ALIASES: [(&str, &str); 1] = [("XDPoS", "Consensus")];

/// Our name of a namespace: itself when it has no other.
pub fn own_name(namespace: &str) -> &str {
    NAMESPACE_ALIASES.iter().find(|(alias, _)| *alias == namespace).map_or(namespace, |(_, own)| own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_may_be_called_by_the_references_name() {
        assert_eq!(["eth", "XDPoS", "Consensus"].map(own_name), ["eth", "Consensus", "Consensus"]);
    }
}
