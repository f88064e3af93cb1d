//! The reference's names of what Tenon's interface calls otherwise (`design.md` 7).

/// Namespaces of native chains: the reference's name, and ours.
pub const NAMESPACE_ALIASES: [(&str, &str); 1] = [("XDPoS", "Consensus")];

/// Our names of these namespaces, each as it is when it has no other.
pub fn own_names(namespaces: &[String]) -> Vec<String> {
    let own =
        |name: &String| NAMESPACE_ALIASES.iter().find(|(alias, _)| alias == name).map(|(_, own)| (*own).to_owned());
    namespaces.iter().map(|name| own(name).unwrap_or_else(|| name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_namespaces_may_say_the_references_names() {
        let listed = ["eth", "XDPoS", "Consensus"].map(str::to_owned);

        assert_eq!(own_names(&listed), ["eth", "Consensus", "Consensus"]);
    }
}
