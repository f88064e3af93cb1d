//! `RLPTests`: values and their one encoding, and encodings that must be refused.

use alloy_primitives::{U512, hex};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tenon_chain::codec::{RlpItem, decode_item, encode_item};

use super::{Cases, FileReports, cases_of, parse_case};
use crate::{
    Difference,
    lenient::HexBytes,
    outcome::{Check, Passed, require_equal},
};

#[derive(Deserialize)]
struct RlpCase {
    r#in: Value,
    out: HexBytes,
}

pub(super) fn run(text: &[u8], cases: &Cases<'_>) -> FileReports {
    let run_one = |(name, raw): (String, &RawValue)| cases.run(&name, || parse_case::<RlpCase>(raw)?.run());
    Ok(cases_of(text)?.into_iter().filter_map(run_one).collect())
}

impl RlpCase {
    fn run(&self) -> Check {
        let decoded = decode_item(&self.out.0);
        match (self.r#in.as_str(), decoded) {
            (Some("INVALID"), Err(_)) => Ok(Passed::default()),
            (Some("INVALID"), Ok(item)) => Err(Difference::new("decoding", format!("{item:?}"), "refused").into()),
            (_, Err(error)) => Err(Difference::new("decoding", error, "accepted").into()),
            (Some("VALID"), Ok(item)) => {
                require_equal("encoding", hex::encode(encode_item(&item)), hex::encode(&self.out.0))?;
                Ok(Passed::default())
            }
            (_, Ok(found)) => {
                let wanted = item(&self.r#in)?;
                require_equal("encoding", hex::encode(encode_item(&wanted)), hex::encode(&self.out.0))?;
                require_equal("decoding", format!("{found:?}"), format!("{wanted:?}"))?;
                Ok(Passed::default())
            }
        }
    }
}

/// The item represented by a JSON value: text, a number, a decimal number after `#`, or a list.
fn item(value: &Value) -> Result<RlpItem, Difference> {
    let unknown = || Difference::new("input", value, "text, number or list");
    match value {
        Value::Array(items) => Ok(RlpItem::List(items.iter().map(item).collect::<Result<_, _>>()?)),
        Value::Number(number) => number.as_u64().map(|number| integer(U512::from(number))).ok_or_else(unknown),
        Value::String(text) => match text.strip_prefix('#') {
            Some(digits) => U512::from_str_radix(digits, 10).map(integer).map_err(|_| unknown()),
            None => Ok(RlpItem::String(text.clone().into_bytes())),
        },
        _ => Err(unknown()),
    }
}

fn integer(number: U512) -> RlpItem {
    RlpItem::String(number.to_be_bytes_trimmed_vec())
}
