//! `KeyStoreTests`: encrypted key files.

use alloy_primitives::B256;
use serde::Deserialize;
use serde_json::value::RawValue;
use tenon_accounts::{
    address_of_secret,
    keystore::{CostLimits, KeyFile},
};

use super::{Cases, FileReports, cases_of, parse_case};
use crate::{
    Difference,
    outcome::{Check, Passed, require_equal},
};

#[derive(Deserialize)]
struct KeyFileCase {
    json: Box<RawValue>,
    password: String,
    #[serde(rename = "priv")]
    secret: B256,
}

pub(super) fn run(text: &[u8], cases: &Cases<'_>) -> FileReports {
    let run_one = |(name, raw): (String, &RawValue)| match parse_case::<KeyFileCase>(raw) {
        Ok(case) => cases.run(&name, || case.run()),
        Err(unmet) => cases.unmet(&name, unmet),
    };
    Ok(cases_of(text)?.into_iter().filter_map(run_one).collect())
}

impl KeyFileCase {
    fn run(&self) -> Check {
        let wanted = address_of_secret(self.secret.0.into());
        let wanted = wanted.ok_or_else(|| Difference::new("key", self.secret, "a valid one"))?;
        let file = KeyFile::parse(self.json.get().as_bytes(), &CostLimits::with_memory(512 << 20))
            .map_err(|error| Difference::new("key file", error, "a key file"))?;
        let found = file.check(self.password.as_bytes()).map_err(|error| Difference::new("key", error, wanted))?;
        require_equal("address", found, wanted)?;
        let refused = file.check(b"another password").is_err();
        require_equal("refusal of another password", refused, true)?;
        Ok(Passed::default())
    }
}
