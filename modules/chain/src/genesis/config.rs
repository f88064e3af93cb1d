//! How a family of chains reads a genesis file.

use std::collections::BTreeMap;

use alloy_primitives::B256;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::GenesisError;
use super::form::{FormError, message_of};
use crate::spec::SpecFamily;

/// A family of chains whose genesis files can be read.
pub trait GenesisFamily {
    /// Reads the family's members of `config`; `None` if the file is not of this family.
    ///
    /// # Errors
    /// [`GenesisError`] if a member has the wrong form, or is a rule that the family does not know.
    fn read(&self, config: &ConfigText<'_>) -> Result<Option<Box<dyn FamilyConfig>>, GenesisError>;
}

/// The family's members of a genesis file's `config`.
pub trait FamilyConfig {
    /// The family's rules with the constants of a network id.
    ///
    /// # Errors
    /// [`GenesisError`] if the members contradict one another or these constants.
    fn family(&self, network_id: u64) -> Result<Box<dyn SpecFamily>, GenesisError>;
}

/// The members outside `config` that a family decides about.
#[derive(Clone, Copy, Debug)]
pub struct GenesisMembers {
    /// Whether the file has `gasLimit`.
    pub has_gas_limit: bool,
    /// Whether the file has `difficulty`.
    pub has_difficulty: bool,
    /// Whether every account has `balance`.
    pub has_balances: bool,
    /// `baseFeePerGas`, wei.
    pub base_fee_per_gas: Option<u64>,
    /// `blobGasUsed`.
    pub blob_gas_used: Option<u64>,
    /// `excessBlobGas`.
    pub excess_blob_gas: Option<u64>,
    /// `parentBeaconBlockRoot`.
    pub parent_beacon_block_root: Option<B256>,
}

/// The text of `config` within its file, so that errors name line and column.
#[derive(Clone, Copy, Debug)]
pub struct ConfigText<'a> {
    file: &'a [u8],
    config: &'a str,
}

impl<'a> ConfigText<'a> {
    /// `config` must be a part of `file`.
    pub(super) fn new(file: &'a [u8], config: &'a RawValue) -> Self {
        Self { file, config: config.get() }
    }

    /// Every member with its text; the last one of equal names.
    ///
    /// # Errors
    /// [`GenesisError::Json`] if `config` is not an object.
    pub fn members(&self) -> Result<BTreeMap<String, &'a RawValue>, GenesisError> {
        serde_json::from_str(self.config).map_err(|error| self.wrong(&error))
    }

    /// Checks that a member has the form of `T`, if the file has it. Of equal names inside it, the last one counts.
    ///
    /// # Errors
    /// [`GenesisError::Config`] with the position of the first wrong value in the file.
    pub fn check_member<T: DeserializeOwned>(&self, member: &str) -> Result<(), GenesisError> {
        let Some(value) = self.members()?.remove(member) else { return Ok(()) };
        let Err(error) = serde_json::from_str::<T>(value.get()) else { return Ok(()) };
        // The parser of `T` refuses equal names. A `Value` has only the last one, but no positions for errors.
        if serde_json::from_str::<Value>(value.get()).and_then(serde_json::from_value::<T>).is_ok() {
            return Ok(());
        }
        let (line, column) = self.place_of_error(value.get(), &error);
        Err(GenesisError::Config { member: member.to_owned(), message: message_of(&error), line, column })
    }

    /// The error for `config` as a whole.
    fn wrong(&self, error: &serde_json::Error) -> GenesisError {
        let (line, column) = self.place_of_error(self.config, error);
        GenesisError::Json(FormError { message: format!("config: {}", message_of(error)), line, column })
    }

    /// Line and column in the file of an error in one of its parts.
    fn place_of_error(&self, part: &str, error: &serde_json::Error) -> (usize, usize) {
        let (line, column) = self.place_of(part);
        match error.line() {
            ..=1 => (line, column + error.column().saturating_sub(1)),
            lines => (line + lines - 1, error.column()),
        }
    }

    /// Parses `config`; an error names the member and its position in the whole file.
    ///
    /// # Errors
    /// [`GenesisError::Config`]; [`GenesisError::Json`] if no single member is wrong.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, GenesisError> {
        let error = match serde_json::from_str(self.config) {
            Ok(config) => return Ok(config),
            Err(error) => error,
        };
        // The parser reports the end of the object, not the wrong member, so each member is parsed separately.
        for (name, value) in self.members()? {
            let alone = BTreeMap::from([(&name, value)]);
            let Err(error) = serde_json::to_string(&alone).and_then(|text| serde_json::from_str::<T>(&text)) else {
                continue;
            };
            let (line, column) = self.place(value);
            return Err(GenesisError::Config { member: name, message: message_of(&error), line, column });
        }
        Err(self.wrong(&error))
    }

    /// Line and column, from 1, of a member's value in the file.
    pub fn place(&self, value: &RawValue) -> (usize, usize) {
        self.place_of(value.get())
    }

    fn place_of(&self, part: &str) -> (usize, usize) {
        let start = (part.as_ptr() as usize).saturating_sub(self.file.as_ptr() as usize);
        let before = self.file.get(..start).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count();
        let column = before.rsplit(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len);
        (line + 1, column + 1)
    }
}
