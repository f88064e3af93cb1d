//! Simulations of blocks (`eth_simulateV1`): request and answer.

use crate::{Failure, FailureCode};
use tenon_api::{
    Withdrawal,
    messages::{BlockToSimulate, CallRequest, Profile, SimulatedBlock, SimulatedCall, SimulatedFailure},
};

use super::{
    BlockJson, BlockOverridesArgument, CallArguments, JsonWriter, StateOverridesArgument,
    log::{LogPlace, write_log},
};
use crate::error_texts::revert_text;
use crate::param::{ArgumentError, Object, Param, ParamDescription, Quantity, RawArgument};

/// Maximum number of blocks in a request. They are counted before they are decoded: an empty block is three characters
/// of JSON and takes 400 bytes.
const MAX_BLOCKS: usize = 256;
/// Maximum number of calls in a block.
const MAX_CALLS_PER_BLOCK: usize = 5_000;
/// Maximum number of calls in a request.
const MAX_CALLS: usize = 10_000;

/// Appended to the text of a failure that more gas might have prevented.
const CAPPED: &str = " (gas limit was capped by the RPC server's global gas cap)";

/// Capacity for a block, a call and a log without their data.
const BLOCK_BYTES: usize = 2_500;
const CALL_BYTES: usize = 1_200;
const LOG_BYTES: usize = 900;

/// A simulation as the caller wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulationArgument {
    /// The blocks to simulate.
    ///
    /// # Errors
    /// `-38026` if there are too many blocks or calls; none were decoded then.
    pub blocks: Result<Vec<BlockToSimulate>, Failure>,
    /// Transfers of coins are reported as logs.
    pub traces_transfers: bool,
    /// Calls must follow the rules of transactions.
    pub validates: bool,
    /// The answer's blocks have whole transactions instead of their hashes.
    pub returns_full_transactions: bool,
}

impl Param for SimulationArgument {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let object = Object::decode(raw, "ethapi.simOpts")?;
        let flag = |member| Ok(object.optional(member)?.unwrap_or_default());
        Ok(Self {
            blocks: object.raw("blockStateCalls").map_or(Ok(Ok(Vec::new())), decode_blocks)?,
            traces_transfers: flag("traceTransfers")?,
            validates: flag("validation")?,
            returns_full_transactions: flag("returnFullTransactions")?,
        })
    }

    fn description() -> ParamDescription {
        ParamDescription::required(
            r#"{"type":"object","required":["blockStateCalls"],"properties":{"blockStateCalls":{"type":"array","minItems":1,"maxItems":256,"items":{"type":"object","properties":{"blockOverrides":{"type":"object"},"stateOverrides":{"type":"object"},"calls":{"type":"array","maxItems":5000,"items":{"type":"object"}}}}},"traceTransfers":{"type":"boolean"},"validation":{"type":"boolean"},"returnFullTransactions":{"type":"boolean"}}}"#,
        )
    }
}

fn decode_blocks(raw: RawArgument<'_>) -> Result<Result<Vec<BlockToSimulate>, Failure>, ArgumentError> {
    let items = || list(raw, "[]ethapi.simBlock");
    if items()?.count() > MAX_BLOCKS {
        return Ok(Err(limit("too many blocks".to_owned())));
    }
    let mut total = 0;
    for item in items()? {
        let block = Object::decode(item, "ethapi.simBlock")?;
        let Some(calls) = block.raw("calls") else { continue };
        let calls = list(calls, "[]ethapi.TransactionArgs")?.count();
        if calls > MAX_CALLS_PER_BLOCK {
            return Ok(Err(limit(format!("too many calls in block: {calls} > {MAX_CALLS_PER_BLOCK}"))));
        }
        total += calls;
    }
    if total > MAX_CALLS {
        return Ok(Err(limit(format!("too many calls: {total} > {MAX_CALLS}"))));
    }
    Ok(Ok(items()?.map(decode_block).collect::<Result<_, _>>()?))
}

fn limit(message: String) -> Failure {
    Failure { code: FailureCode::CLIENT_LIMIT, message, data: None }
}

fn list<'a>(
    raw: RawArgument<'a>,
    type_name: &'static str,
) -> Result<impl Iterator<Item = RawArgument<'a>>, ArgumentError> {
    raw.array().ok_or_else(|| ArgumentError::mismatch(raw.kind(), type_name))
}

fn decode_block(raw: RawArgument<'_>) -> Result<BlockToSimulate, ArgumentError> {
    let block = Object::decode(raw, "ethapi.simBlock")?;
    let calls = match block.raw("calls") {
        Some(calls) => list(calls, "[]ethapi.TransactionArgs")?.map(decode_call).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let overrides = block.raw("blockOverrides").unwrap_or(RawArgument::new("null"));
    let beside = Object::decode(overrides, "override.BlockOverrides")?;
    Ok(BlockToSimulate {
        overrides: BlockOverridesArgument::decode(overrides)?.0,
        beacon_root: beside.optional("beaconRoot")?,
        withdrawals: beside.raw("withdrawals").map(decode_withdrawals).transpose()?,
        state_overrides: block
            .optional::<StateOverridesArgument>("stateOverrides")?
            .map(StateOverridesArgument::as_written)
            .unwrap_or_default(),
        calls,
    })
}

fn decode_call(raw: RawArgument<'_>) -> Result<CallRequest, ArgumentError> {
    CallArguments::decode(raw).map(CallArguments::into_unchecked_request)
}

fn decode_withdrawals(raw: RawArgument<'_>) -> Result<Vec<Withdrawal>, ArgumentError> {
    list(raw, "types.Withdrawals")?.map(decode_withdrawal).collect()
}

fn decode_withdrawal(raw: RawArgument<'_>) -> Result<Withdrawal, ArgumentError> {
    let object = Object::decode(raw, "types.Withdrawal")?;
    let number = |member: &str| Ok(object.required::<Quantity>(member)?.0);
    Ok(Withdrawal {
        index: number("index")?,
        validator_index: number("validatorIndex")?,
        address: object.required("address")?,
        amount: number("amount")?,
    })
}

/// Simulated blocks, with whole transactions or their hashes.
pub fn simulated_blocks_json(profile: Profile, blocks: &[SimulatedBlock], has_whole_transactions: bool) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(blocks.iter().map(room).sum::<usize>() + 2);
    json.begin_list();
    for simulated in blocks {
        write_block(&mut json, profile, simulated, has_whole_transactions);
    }
    json.end_list();
    json
}

fn room(simulated: &SimulatedBlock) -> usize {
    let calls = simulated.calls.iter().zip(&simulated.stored.block.transactions);
    let data = calls.map(|(call, transaction)| {
        let logs: usize = call.logs.iter().map(|log| log.log.data.len() * 2 + LOG_BYTES).sum();
        call.returned.len() * 2 + transaction.input.len() * 2 + CALL_BYTES + logs
    });
    BLOCK_BYTES + data.sum::<usize>()
}

fn write_block(json: &mut JsonWriter, profile: Profile, simulated: &SimulatedBlock, has_whole_transactions: bool) {
    let shape = BlockJson { profile, as_pending: false, uncle_hashes: &[] };
    json.begin_object();
    shape.write_members(json, &simulated.stored, has_whole_transactions);
    json.key("calls");
    json.begin_list();
    for (index, call) in simulated.calls.iter().enumerate() {
        write_call(json, profile, simulated, index, call);
    }
    json.end_list();
    json.end_object();
}

fn write_call(json: &mut JsonWriter, profile: Profile, simulated: &SimulatedBlock, index: usize, call: &SimulatedCall) {
    let block = &simulated.stored.block;
    json.begin_object();
    json.key("returnData").data(&call.returned);
    json.key("logs");
    json.begin_list();
    for simulated_log in &call.logs {
        let place = LogPlace {
            block_number: block.header.number,
            block_hash: block.header.hash(),
            block_timestamp: block.header.timestamp,
            transaction_hash: block.transactions.get(index).map(|transaction| transaction.hash).unwrap_or_default(),
            transaction_index: index as u64,
            log_index: simulated_log.index,
            removed: false,
        };
        write_log(json, profile, &simulated_log.log, &place);
    }
    json.end_list();
    json.key("gasUsed").quantity(call.gas_used);
    json.key("maxUsedGas").quantity(call.max_gas_used);
    json.key("status").quantity(u64::from(call.failure.is_none()));
    if let Some(failure) = &call.failure {
        write_failure(json, failure);
    }
    json.end_object();
}

fn write_failure(json: &mut JsonWriter, failure: &SimulatedFailure) {
    let (code, message, output) = match failure {
        SimulatedFailure::Reverted { output } => (FailureCode::REVERTED, revert_text(output), Some(output)),
        SimulatedFailure::Halted { cause, is_gas_capped } => {
            let suffix = if *is_gas_capped { CAPPED } else { "" };
            (FailureCode::VM_ERROR, format!("{cause}{suffix}"), None)
        }
    };
    json.key("error").begin_object();
    json.key("message").string(&message);
    json.key("code").raw(&code.0.to_string());
    if let Some(output) = output {
        json.key("data").data(output);
    }
    json.end_object();
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, B256, U256};

    use super::*;

    fn decode(json: &str) -> Result<SimulationArgument, String> {
        SimulationArgument::decode(RawArgument::new(json)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_member_of_a_simulation_is_read() {
        let root = B256::repeat_byte(7);
        let address = Address::repeat_byte(9);
        let withdrawal = format!(r#"{{"index":"0x1","validatorIndex":"0x2","address":"{address}","amount":"0x3"}}"#);
        let overrides = format!(r#"{{"number":"0x40","beaconRoot":"{root}","withdrawals":[{withdrawal}]}}"#);
        let json = format!(
            r#"{{"blockStateCalls":[{{"blockOverrides":{overrides},"stateOverrides":{{"{address}":{{"balance":"0x5"}}}},
            "calls":[{{"to":"{address}","input":"0x01"}},{{}}]}},{{}}],"traceTransfers":true,"validation":true,"returnFullTransactions":true}}"#
        );

        let argument = decode(&json).expect("well formed");

        assert!(argument.traces_transfers && argument.validates && argument.returns_full_transactions);
        let blocks = argument.blocks.expect("not too many");
        assert_eq!((blocks.len(), &blocks[1]), (2, &BlockToSimulate::default()));
        assert_eq!((blocks[0].overrides.number, blocks[0].beacon_root), (Some(U256::from(64)), Some(root)));
        assert_eq!(blocks[0].withdrawals, Some(vec![Withdrawal { index: 1, validator_index: 2, address, amount: 3 }]));
        assert_eq!(blocks[0].state_overrides[0].1.balance, Some(U256::from(5)));
        assert_eq!((blocks[0].calls[0].to, blocks[0].calls.len()), (Some(address), 2));
    }

    #[test]
    fn blocks_and_calls_above_the_limit_are_counted_and_not_decoded() {
        let of = |blocks: &[String]| decode(&format!("{{\"blockStateCalls\":[{}]}}", blocks.join(","))).expect("JSON");
        // Decoding would refuse these: a number is not a call.
        let calls = |count: usize| format!("{{\"calls\":[{}]}}", vec!["1"; count].join(","));

        let refused = |blocks: &[String]| of(blocks).blocks.map_err(|failure| (failure.code.0, failure.message));

        assert_eq!(refused(&vec!["1".to_owned(); 257]), Err((-38026, "too many blocks".to_owned())));
        assert_eq!(refused(&[calls(5_001)]), Err((-38026, "too many calls in block: 5001 > 5000".to_owned())));
        assert_eq!(
            refused(&[calls(4_000), calls(4_000), calls(2_001)]),
            Err((-38026, "too many calls: 10001 > 10000".to_owned()))
        );
    }

    #[test]
    fn values_of_another_type_are_refused() {
        for json in [
            r#"{"blockStateCalls":{}}"#,
            r#"{"blockStateCalls":[1]}"#,
            r#"{"blockStateCalls":[{"calls":1}]}"#,
            r#"{"blockStateCalls":[{"calls":[1]}]}"#,
            r#"{"blockStateCalls":[{"blockOverrides":{"withdrawals":[{}]}}]}"#,
            r#"{"validation":1}"#,
            "[]",
        ] {
            assert!(decode(json).is_err(), "{json}");
        }
        assert_eq!(decode("{}").expect("nothing").blocks, Ok(Vec::new()));
    }
}
