//! The reference's names of namespaces that Tenon names differently.

/// Namespaces of native chains: the reference's name, and Tenon's.
const ALIASES: [(&str, &str); 1] = [("XDPoS", "Consensus")];

/// The names under which a node serves its namespaces, and the names allowed in lists of namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceNames {
    aliases: &'static [(&'static str, &'static str)],
}

impl NamespaceNames {
    /// Tenon's names and the reference's: on native chains, unless `rpc.aliases` is off.
    pub const WITH_ALIASES: Self = Self { aliases: &ALIASES };
    /// Tenon's names only. The reference's names are then unknown, even in lists of namespaces.
    pub const OWN: Self = Self { aliases: &[] };

    /// The reference's names, each with Tenon's.
    pub const fn aliases(self) -> &'static [(&'static str, &'static str)] {
        self.aliases
    }

    /// Tenon's name of a namespace: the name itself if it is not an alias.
    pub fn own_name(self, namespace: &str) -> &str {
        self.aliases.iter().find(|(alias, _)| *alias == namespace).map_or(namespace, |(_, own)| own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_may_have_the_references_name_if_aliases_are_served() {
        let said = ["eth", "XDPoS", "Consensus"];

        let with_aliases = said.map(|name| NamespaceNames::WITH_ALIASES.own_name(name));
        let without = said.map(|name| NamespaceNames::OWN.own_name(name));

        assert_eq!(with_aliases, ["eth", "Consensus", "Consensus"]);
        assert_eq!(without, said);
    }
}
