//! Object parameters: member names in any letter case, unknown members ignored (`docs/spec/rpc-eth.md` 4.2).

use std::borrow::Cow;

use super::{ArgumentError, Param, RawArgument, Values};

/// An object parameter whose members are not decoded yet.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    /// The reference's name of the structure without its package.
    structure: &'static str,
    members: Vec<(Cow<'a, str>, RawArgument<'a>)>,
}

impl<'a> Object<'a> {
    /// Splits an object. `type_name` is the reference's name of the structure, such as `ethapi.TransactionArgs`; `null`
    /// has no members.
    ///
    /// # Errors
    /// If the value is not an object.
    pub fn decode(raw: RawArgument<'a>, type_name: &'static str) -> Result<Self, ArgumentError> {
        let structure = type_name.rsplit('.').next().unwrap_or(type_name);
        let mut members = Vec::new();
        if raw.is_null() {
            return Ok(Self { structure, members });
        }
        let mut values = Values::of_object(raw.as_str()).ok_or(ArgumentError::mismatch(raw.kind(), type_name))?;
        while let Some(member) = values.next_member().map_err(|_| ArgumentError::text("parse error"))? {
            members.push(member);
        }
        Ok(Self { structure, members })
    }

    /// The text of a member; of duplicates, the last. `None` if it is absent or `null`.
    pub fn raw(&self, member: &str) -> Option<RawArgument<'a>> {
        let mut found = self.members.iter().rev().filter(|(name, _)| name.eq_ignore_ascii_case(member));
        found.next().map(|(_, raw)| *raw).filter(|raw| !raw.is_null())
    }

    /// Every member in order, as written.
    pub fn members(&self) -> impl Iterator<Item = (&str, RawArgument<'a>)> {
        self.members.iter().map(|(name, raw)| (name.as_ref(), *raw))
    }

    /// A member that may be absent or `null`.
    ///
    /// # Errors
    /// Why its value was refused; the text names structure and member.
    pub fn optional<T: Param>(&self, member: &str) -> Result<Option<T>, ArgumentError> {
        self.raw(member).map(T::decode).transpose().map_err(|error| error.in_field(self.structure, member))
    }

    /// A required member.
    ///
    /// # Errors
    /// `missing required field '<member>' for <structure>`, or why its value was refused.
    pub fn required<T: Param>(&self, member: &str) -> Result<T, ArgumentError> {
        self.optional(member)?
            .ok_or_else(|| ArgumentError::text(format!("missing required field '{member}' for {}", self.structure)))
    }
}
