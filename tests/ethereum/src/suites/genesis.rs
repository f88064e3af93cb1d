//! `GenesisTests`: a genesis file and the RLP of its block.

use alloy_primitives::hex;
use serde_json::{Value, json, value::RawValue};
use tenon_chain::{Genesis, encode_block};

use super::{Cases, FileReports, cases_of, parse_case};
use crate::{
    Difference,
    outcome::{Check, Passed, require_equal},
};

pub(super) fn run(text: &[u8], cases: &Cases<'_>) -> FileReports {
    let run_one = |(name, raw): (String, &RawValue)| cases.run(&name, || run_case(parse_case(raw)?));
    Ok(cases_of(text)?.into_iter().filter_map(run_one).collect())
}

fn run_case(mut file: Value) -> Check {
    let wanted = file["result"].as_str().unwrap_or_default().to_owned();
    // The files of 2014 have no configuration and may call the balance "wei".
    file["config"] = json!({ "chainId": 1 });
    for account in file["alloc"].as_object_mut().into_iter().flat_map(|accounts| accounts.values_mut()) {
        if let Some(members) = account.as_object_mut()
            && let Some(balance) = members.remove("wei")
        {
            members.insert("balance".to_owned(), balance);
        }
    }
    let genesis = Genesis::from_json(file.to_string().as_bytes())
        .map_err(|error| Difference::new("genesis file", error, "accepted"))?;
    let block = genesis.commit().map_err(|error| Difference::new("genesis", error, "a block"))?.block;
    require_equal("genesis RLP", hex::encode(encode_block(&block)), wanted.trim_start_matches("0x").to_owned())?;
    Ok(Passed::default())
}
