//! A call as text, with the client's message that contains it.

use std::ops::Range;

use bytes::Bytes;
use bytes_utils::Str;
use tenon_bus::Reservation;
use zeroize::Zeroizing;

/// Method and parameters of a call, not decoded.
///
/// The text of a message is needed until the plugin has decoded its parameters, and the call may wait long after that.
/// So the router takes the call by reference, which costs nothing to pass on, and frees an owned text once the
/// parameters are decoded. After that the call has neither method nor parameters.
#[derive(Debug)]
pub struct RawCall<'a>(Text<'a>);

#[derive(Debug)]
enum Text<'a> {
    /// The text is borrowed.
    Lent { method: &'a str, params: Option<&'a str> },
    /// The call owns the text, and its reservation in the memory budget.
    Owned { text: Str, method: Range<usize>, params: Option<Range<usize>>, _memory: Option<Reservation> },
}

impl<'a> RawCall<'a> {
    /// Creates a call that borrows its text.
    pub const fn lent(method: &'a str, params: Option<&'a str>) -> Self {
        Self(Text::Lent { method, params })
    }

    /// Creates a call that owns its text. `method` and `params` are ranges in it, `memory` is its reservation.
    pub const fn owned(
        text: Str,
        method: Range<usize>,
        params: Option<Range<usize>>,
        memory: Option<Reservation>,
    ) -> Self {
        Self(Text::Owned { text, method, params, _memory: memory })
    }

    /// Creates a call with copies of these texts.
    pub fn copied(method: &str, params: Option<&str>) -> Self {
        let (end, params_end) = (method.len(), method.len() + params.map_or(0, str::len));
        // Wiped, because it may hold a password. Copies are rare.
        let text = Zeroizing::new([method, params.unwrap_or_default()].concat().into_bytes());
        // Both parts were text before.
        let text = Str::from_inner(Bytes::from_owner(text)).unwrap_or_default();
        Self::owned(text, 0..end, params.map(|_| end..params_end), None)
    }

    /// The method's name.
    pub fn method(&self) -> &str {
        match &self.0 {
            Text::Lent { method, .. } => method,
            Text::Owned { text, method, .. } => part(text, method),
        }
    }

    /// The JSON text of the parameters.
    pub fn params(&self) -> Option<&str> {
        match &self.0 {
            Text::Lent { params, .. } => *params,
            Text::Owned { text, params, .. } => params.as_ref().map(|params| part(text, params)),
        }
    }

    /// Length of the parameters' text, bytes.
    pub fn params_length(&self) -> usize {
        match &self.0 {
            Text::Lent { params, .. } => params.map_or(0, str::len),
            Text::Owned { params, .. } => params.as_ref().map_or(0, Range::len),
        }
    }

    /// Frees the text: the parameters are decoded.
    pub fn release(&mut self) {
        self.0 = Text::Lent { method: "", params: None };
    }

    /// Frees the text around method and parameters: for a call that has to wait.
    pub fn detach(&mut self) {
        if matches!(self.0, Text::Owned { .. }) {
            *self = Self::copied(self.method(), self.params());
        }
    }
}

/// A part of a text; empty if the range is out of bounds.
fn part<'t>(text: &'t Str, range: &Range<usize>) -> &'t str {
    text.get(range.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tenon_bus::{ClientId, MemoryBudget, MemoryUse};

    use super::*;

    #[test]
    fn a_call_that_waits_frees_the_text_around_its_parameters() {
        let budget = MemoryBudget::unbounded();
        let text = Str::from(format!(r#"{{"method":"eth_call","params":["x"],"pad":"{}"}}"#, " ".repeat(10_000)));
        let find = |piece: &str| {
            let at = text.find(piece).unwrap();
            at..at + piece.len()
        };
        let memory = budget.client(ClientId::INSIDE).reserve(MemoryUse::Messages, text.len()).ok();
        let mut call = RawCall::owned(text.clone(), find("eth_call"), Some(find(r#"["x"]"#)), memory);
        let others = |call: &RawCall<'_>| (call.method().to_owned(), call.params().map(str::to_owned));
        let before = others(&call);

        call.detach();

        assert_eq!(before, ("eth_call".to_owned(), Some(r#"["x"]"#.to_owned())));
        assert_eq!(others(&call), before);
        assert_eq!(call.params_length(), 5);
        assert!(text.inner().is_unique(), "nothing else holds the message");
        assert_eq!(budget.usage().held, [0; MemoryUse::ALL.len()]);
        let mut absent = RawCall::copied("eth_chainId", None);
        absent.detach();
        assert_eq!(others(&absent), ("eth_chainId".to_owned(), None));
    }

    #[test]
    fn a_call_whose_parameters_are_decoded_frees_its_text() {
        let text = Str::from("eth_call[]");
        let budget = MemoryBudget::unbounded();
        let memory = budget.client(ClientId::INSIDE).reserve(MemoryUse::Messages, text.len()).ok();
        let mut call = RawCall::owned(text.clone(), 0..8, Some(8..10), memory);

        call.release();

        assert!(text.inner().is_unique(), "nothing else holds the message");
        assert_eq!(budget.usage().held, [0; MemoryUse::ALL.len()]);
        assert_eq!((call.method(), call.params()), ("", None));
    }
}
