//! What a request asks for.

use std::borrow::Cow;

use super::raw_message::RawRequest;

/// A classified request.
pub(super) enum Request<'a> {
    /// An answer, or a notification that only servers send: dropped.
    Ignored,
    /// Not a call.
    Invalid { id: &'a str },
    /// A call, or without id a notification.
    Call { id: Option<&'a str>, method: Cow<'a, str>, params: Option<&'a str> },
}

impl<'a> Request<'a> {
    /// Classifies a request (`docs/spec/rpc-eth.md` 3.1).
    pub(super) fn inspect(raw: &RawRequest, text: &'a str) -> Self {
        if !raw.is_object {
            return Self::Invalid { id: "null" };
        }
        let id = raw.id.map(|id| id.of(text));
        let is_usable = |id: &&str| !id.starts_with(['{', '[']);
        let params = raw.params.map(|params| params.of(text));
        let method = raw.method_in(text).filter(|method| !method.is_empty());
        match (method, id) {
            (Some(method), None) if method.ends_with("_subscription") => Self::Ignored,
            (Some(method), None) => Self::Call { id: None, method, params },
            (Some(method), Some(id)) if is_usable(&id) => Self::Call { id: Some(id), method, params },
            (None, Some(id)) if is_usable(&id) && params.is_none() && raw.has_outcome => Self::Ignored,
            (_, id) => Self::Invalid { id: id.filter(is_usable).unwrap_or("null") },
        }
    }
}
