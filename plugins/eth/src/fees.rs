//! Fees: `docs/spec/rpc-eth.md` 11.

use tenon_sdk::{
    error_texts::{RefusableAnswer as _, Refusal as _},
    param::ParamDescription,
    prelude::*,
    shapes::JsonWriter,
};

use crate::{Answer, EthContext, deferred::Deferred, dialect::Dialect, named_block};

/// Maximum number of blocks in one answer; more are cut silently, as in the reference.
const MAX_HISTORY_BLOCKS: u64 = 1024;

pub(crate) async fn max_priority_fee_per_gas(context: EthContext) -> Result<U256, Failure> {
    context.call(SuggestTip).await
}

/// The suggested tip on top of the head's base fee.
pub(crate) async fn gas_price(context: EthContext) -> Result<U256, Failure> {
    context.call(SuggestGasPrice).await
}

/// The base fee of the next block; `None` where blocks have none.
pub(crate) async fn base_fee(context: EthContext) -> Result<Option<U256>, Failure> {
    Ok(context.call(GetNextBlockFees).await?.base_fee_per_gas)
}

/// Zero on chains without blobs.
pub(crate) async fn blob_base_fee(context: EthContext) -> Result<U256, Failure> {
    Ok(context.call(GetNextBlockFees).await?.blob_base_fee.unwrap_or_default())
}

pub(crate) async fn fee_history(
    context: EthContext,
    count: BlockCount,
    newest: Deferred<BlockNumberParam>,
    percentiles: Deferred<Option<Vec<f64>>>,
) -> Answer {
    let dialect = crate::dialect(&context).await?;
    let newest = named_block(&context, newest.at(1)?, 1).await?;
    let percentiles = percentiles.at(2)?.unwrap_or_default();
    if count.0 == 0 {
        return Ok(empty_history());
    }
    PercentileProblem::check(&percentiles).map_err(PercentileProblem::into_failure)?;
    let request = GetFeeHistory { block_count: count.0.min(MAX_HISTORY_BLOCKS), newest, percentiles };
    let history = context.call(request).await.or_failure()?;
    if history.gas_used_ratio.is_empty() {
        return Ok(empty_history());
    }
    Ok(fee_history_json(dialect, &history))
}

fn empty_history() -> JsonWriter {
    let mut json = JsonWriter::with_capacity(48);
    json.raw(r#"{"oldestBlock":"0x0","gasUsedRatio":null}"#);
    json
}

/// A number of blocks: hexadecimal or decimal, as a string or a number, as in the interface document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockCount(u64);

impl Param for BlockCount {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let text = raw.string();
        let decimal = text.as_deref().unwrap_or(raw.as_str());
        if !decimal.is_empty() && decimal.bytes().all(|digit| digit.is_ascii_digit()) {
            return Ok(Self(decimal.parse().unwrap_or(u64::MAX)));
        }
        Index::decode(raw).map(|count| Self(count.0))
    }

    fn description() -> ParamDescription {
        Index::description()
    }
}

/// The answer of `eth_feeHistory`.
fn fee_history_json(dialect: &Dialect, history: &FeeHistory) -> JsonWriter {
    let blocks = history.gas_used_ratio.len();
    let rewards = history.reward.as_ref().map_or(0, |rows| rows.iter().map(Vec::len).sum());
    let mut json = JsonWriter::with_capacity(blocks * 80 + rewards * 16 + 200);
    json.begin_object();
    json.key("oldestBlock").quantity(history.oldest.0);
    if let Some(rows) = &history.reward {
        json.key("reward");
        json.begin_list();
        for row in rows {
            write_quantities(&mut json, row);
        }
        json.end_list();
    }
    json.key("baseFeePerGas");
    write_quantities(&mut json, &history.base_fee_per_gas);
    json.key("gasUsedRatio");
    write_ratios(&mut json, &history.gas_used_ratio);
    if dialect.has_blob_fees {
        json.key("baseFeePerBlobGas");
        write_quantities(&mut json, &history.base_fee_per_blob_gas);
        json.key("blobGasUsedRatio");
        write_ratios(&mut json, &history.blob_gas_used_ratio);
    }
    json.end_object();
    json
}

fn write_quantities(json: &mut JsonWriter, values: &[U256]) {
    json.begin_list();
    for value in values {
        json.quantity_256(*value);
    }
    json.end_list();
}

fn write_ratios(json: &mut JsonWriter, ratios: &[f64]) {
    json.begin_list();
    for ratio in ratios {
        json.float(*ratio);
    }
    json.end_list();
}

#[cfg(test)]
mod tests {
    use tenon_sdk::error_texts::percentile_problem_text;

    use super::*;

    #[test]
    fn percentiles_must_lie_in_range_and_ascend() {
        let cases: [(&[f64], Option<&str>); 5] = [
            (&[], None),
            (&[0.0, 50.0, 100.0], None),
            (&[100.5], Some("invalid reward percentile: 100.500000")),
            (&[-1.0], Some("invalid reward percentile: -1.000000")),
            (&[10.0, 10.0], Some("invalid reward percentile: #0:10.000000 >= #1:10.000000")),
        ];

        for (percentiles, expected) in cases {
            let refused = PercentileProblem::check(percentiles).err().map(percentile_problem_text);
            assert_eq!(refused.as_deref(), expected, "{percentiles:?}");
        }
        let many = PercentileProblem::check(&[0.0; 101]).map_err(percentile_problem_text);
        assert_eq!(many, Err("invalid reward percentile: over the query limit 100".to_owned()));
    }

    #[test]
    fn the_count_may_be_a_number_or_a_string_in_hexadecimal_or_decimal() {
        let decode = |json| BlockCount::decode(RawArgument::new(json)).map(|count| count.0);

        for json in ["\"0x10\"", "\"16\"", "16"] {
            assert_eq!(decode(json), Ok(16), "{json}");
        }
        let refused = decode("true").map_err(|error| error.to_string());
        assert_eq!(refused, Err("json: cannot unmarshal non-string into Go value of type hexutil.Uint".to_owned()));
    }

    #[test]
    fn history_has_the_members_of_its_profile() {
        let history = FeeHistory {
            oldest: BlockNumber(27),
            base_fee_per_gas: vec![U256::from(1_000_000_000), U256::from(0x342a_385a)],
            gas_used_ratio: vec![0.000_728_68],
            base_fee_per_blob_gas: vec![U256::ZERO; 2],
            blob_gas_used_ratio: vec![0.0],
            reward: Some(vec![vec![U256::from(1), U256::from(1)]]),
        };

        // The recorded answer of tests/eth_feeHistory/fee-history.io (execution-apis, CC0).
        let recorded = r#"{"oldestBlock":"0x1b","reward":[["0x1","0x1"]],"baseFeePerGas":["0x3b9aca00","0x342a385a"],"gasUsedRatio":[0.00072868],"baseFeePerBlobGas":["0x0","0x0"],"blobGasUsedRatio":[0]}"#;
        assert_eq!(fee_history_json(&Dialect::ETHEREUM, &history).into_string(), recorded);
        assert!(!fee_history_json(&Dialect::NATIVE, &history).into_string().contains("Blob"));
    }
}
