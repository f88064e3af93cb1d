//! Namespaces and methods that a caller's endpoint exposes.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use tenon_api::MethodPattern;

/// The namespaces and methods that an endpoint exposes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Exposure {
    /// `None` means all.
    listed: Option<Arc<Listed>>,
}

#[derive(Debug)]
struct Listed {
    /// Sorted, each once.
    namespaces: Vec<String>,
    /// Refused methods of exposed namespaces.
    refused: Vec<MethodPattern>,
    /// Exposed namespaces and refused methods as text for plugins: `eth,net,!eth_sign*`.
    text: String,
    /// `refused`, resolved to the routes of one table. Computed by the first call after the table has changed.
    decided: ArcSwapOption<RefusedRoutes>,
}

/// Marks a refused method in the text for plugins. No namespace begins with it.
const REFUSED: char = '!';

impl Exposure {
    /// Exposes everything, as the Unix socket does.
    pub const fn all() -> Self {
        Self { listed: None }
    }

    /// Exposes only these namespaces, under each of their names.
    pub fn of<N: Into<String>>(namespaces: impl IntoIterator<Item = N>) -> Self {
        Self::listed(namespaces.into_iter().map(Into::into).collect(), Vec::new())
    }

    /// Excludes methods that match one of these patterns by any of their names. Has no effect on [`Exposure::all`]: the
    /// Unix socket exposes everything.
    #[must_use]
    pub fn refusing(self, patterns: impl IntoIterator<Item = MethodPattern>) -> Self {
        let Some(listed) = self.listed else { return self };
        Self::listed(listed.namespaces.clone(), patterns.into_iter().collect())
    }

    fn listed(mut namespaces: Vec<String>, mut refused: Vec<MethodPattern>) -> Self {
        namespaces.sort_unstable();
        namespaces.dedup();
        refused.sort_unstable();
        refused.dedup();
        let refusals = refused.iter().map(|pattern| format!("{REFUSED}{}", pattern.as_str()));
        let text = namespaces.iter().cloned().chain(refusals).collect::<Vec<_>>().join(",");
        Self { listed: Some(Arc::new(Listed { namespaces, refused, text, decided: ArcSwapOption::empty() })) }
    }

    /// Parses the form of [`Exposure::as_text`].
    pub fn from_text(text: &str) -> Self {
        if text == "*" {
            return Self::all();
        }
        let (refused, namespaces): (Vec<_>, Vec<_>) =
            text.split(',').filter(|item| !item.is_empty()).partition(|item| item.starts_with(REFUSED));
        let patterns = refused.into_iter().map(|item| MethodPattern::new(&item[REFUSED.len_utf8()..]));
        Self::of(namespaces).refusing(patterns)
    }

    /// The namespaces and refused methods separated by commas; `*` for all.
    pub fn as_text(&self) -> &str {
        self.listed.as_ref().map_or("*", |listed| &listed.text)
    }

    /// The namespaces; `None` if all are exposed.
    pub fn namespaces(&self) -> Option<&[String]> {
        self.listed.as_deref().map(|listed| &*listed.namespaces)
    }

    /// Whether a namespace is exposed.
    pub fn exposes(&self, namespace: &str) -> bool {
        self.listed.as_ref().is_none_or(|listed| listed.namespaces.iter().any(|name| name == namespace))
    }

    /// Whether a method of this name is refused, even if its namespace is exposed.
    pub fn refuses(&self, method: &str) -> bool {
        self.listed.as_ref().is_some_and(|listed| listed.refused.iter().any(|pattern| pattern.matches(method)))
    }

    /// Whether any method is refused by name.
    pub(crate) fn refuses_some(&self) -> bool {
        self.listed.as_ref().is_some_and(|listed| !listed.refused.is_empty())
    }

    /// Whether the route with this number is refused. `names` gives the table's routes as (number, name by which it is
    /// called, own name).
    ///
    /// Patterns are matched once per table and not on every call: most endpoints refuse nothing, and for the others a
    /// call tests one bit.
    pub(crate) fn refuses_route<'a, N: Iterator<Item = (u32, &'a str, &'a str)>>(
        &self,
        number: u32,
        table: TableNumber,
        names: impl Fn() -> N,
    ) -> bool {
        let Some(listed) = self.listed.as_ref().filter(|listed| !listed.refused.is_empty()) else { return false };
        let decided = listed.decided.load();
        match &*decided {
            Some(decided) if decided.table == table => decided.contains(number),
            _ => {
                let decided = RefusedRoutes::of(&listed.refused, table, names);
                let is_refused = decided.contains(number);
                listed.decided.store(Some(Arc::new(decided)));
                is_refused
            }
        }
    }
}

impl PartialEq for Exposure {
    fn eq(&self, other: &Self) -> bool {
        self.as_text() == other.as_text()
    }
}

impl Eq for Exposure {}

/// Identifies a table of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableNumber(u64);

impl TableNumber {
    /// The number of a new table.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The refused routes of one table.
#[derive(Debug)]
struct RefusedRoutes {
    table: TableNumber,
    /// A bit for each route.
    bits: Vec<u64>,
}

impl RefusedRoutes {
    /// A method that is refused under one of its names is refused under all of them.
    fn of<'a, N: Iterator<Item = (u32, &'a str, &'a str)>>(
        patterns: &[MethodPattern],
        table: TableNumber,
        names: impl Fn() -> N,
    ) -> Self {
        let fits = |name: &str| patterns.iter().any(|pattern| pattern.matches(name));
        let refused: HashSet<&str> =
            names().filter(|(_, name, own)| fits(name) || fits(own)).map(|(_, _, own)| own).collect();
        let mut bits = Vec::new();
        for (number, ..) in names().filter(|(_, _, own)| refused.contains(own)) {
            let word = number as usize / 64;
            if bits.len() <= word {
                bits.resize(word + 1, 0);
            }
            bits[word] |= 1_u64 << (number % 64);
        }
        Self { table, bits }
    }

    fn contains(&self, number: u32) -> bool {
        self.bits.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<MethodPattern> {
        texts.iter().map(|text| MethodPattern::new(*text)).collect()
    }

    #[test]
    fn shows_what_is_listed_and_nothing_else() {
        let exposure = Exposure::of(["net", "eth"]);

        assert!(exposure.exposes("eth") && exposure.exposes("net"));
        assert!(!exposure.exposes("rpc") && !exposure.exposes("debug") && !exposure.exposes("Eth"));
        assert!(Exposure::all().exposes("anything"));
    }

    #[test]
    fn reports_to_plugins_what_it_checks() {
        let exposure = Exposure::of(["net", "eth", "eth"]).refusing(patterns(&["eth_sign*", "net_version"]));

        assert_eq!(exposure.as_text(), "eth,net,!eth_sign*,!net_version");
        let again = Exposure::from_text(exposure.as_text());
        assert_eq!(again, exposure);
        assert!(again.refuses("eth_signTransaction") && again.refuses("net_version") && !again.refuses("eth_call"));
        assert_eq!(Exposure::from_text("*"), Exposure::all());
        assert!(!Exposure::from_text("").exposes(""));
    }

    #[test]
    fn a_method_refused_by_one_name_is_refused_by_all_and_each_table_is_looked_at_again() {
        let exposure = Exposure::of(["a"]).refusing(patterns(&["b_sign*"]));
        let first = [(0, "a_sign", "a_sign"), (1, "b_sign", "a_sign"), (70, "a_call", "a_call")];
        let second = [(0, "a_call", "a_call"), (1, "a_signAll", "a_signAll"), (2, "b_signAll", "a_signAll")];
        let refused = |table: TableNumber, names: &'static [(u32, &'static str, &'static str)]| {
            let refuses = |number| exposure.refuses_route(number, table, || names.iter().copied());
            names.iter().map(|(number, ..)| refuses(*number)).collect::<Vec<_>>()
        };
        let (first, second) = (Box::leak(Box::new(first)), Box::leak(Box::new(second)));
        let (one, other) = (TableNumber::next(), TableNumber::next());

        assert_eq!(refused(one, first), [true, true, false]);
        assert_eq!(refused(other, second), [false, true, true]);
        assert_eq!(refused(one, first), [true, true, false]);
    }
}
