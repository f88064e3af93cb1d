//! Other names of namespaces.

/// Another name of a namespace: its methods and subscriptions are served under both names. If a method answers
/// differently under the other name, the plugin has a method `<namespace>_<other name>_<method>` for it, which clients
/// call as `<other name>_<method>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceAlias {
    /// The other name.
    pub name: String,
    /// The namespace's own name, under which its plugin serves it. It decides whether the namespace is exposed.
    pub namespace: String,
    /// Whether it is served under the other name. If not, the methods specific to that name are not served either.
    pub is_served: bool,
}

impl NamespaceAlias {
    /// For a method specific to the other name: the part after that name.
    pub(crate) fn name_of_internal<'a>(&self, method: &'a str) -> Option<&'a str> {
        let rest = method.strip_prefix(&self.namespace)?.strip_prefix('_')?;
        rest.strip_prefix(&self.name)?.strip_prefix('_')
    }
}
