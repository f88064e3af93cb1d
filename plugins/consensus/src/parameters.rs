//! Contracts and parameters of the chain's consensus (`docs/spec/rpc-node.md` 2.3).

use tenon_sdk::{prelude::*, shapes::JsonWriter};

use crate::{Answer, ConsensusContext, Types, require_native, write_number};

/// Prefix of the names of three members.
const fn prefix(types: Types) -> &'static str {
    match types {
        Types::Document => "Native",
        Types::Reference => "XDC",
    }
}

pub(crate) async fn network_information(context: ConsensusContext) -> Answer {
    require_native(&context, "networkInformation").await?;
    information(&context, Types::Document).await
}

pub(crate) async fn network_information_by_reference(context: ConsensusContext) -> Answer {
    require_native(&context, "networkInformation").await?;
    information(&context, Types::Reference).await
}

async fn information(context: &ConsensusContext, types: Types) -> Answer {
    let prefix = prefix(types);
    let parameters = context.call(GetConsensusParameters).await?;
    let mut json = JsonWriter::with_capacity(parameters.rounds.len() * 220 + 1200);
    json.begin_object();
    types.write_quantity(json.key("NetworkId"), parameters.chain_id);
    json.key(&format!("{prefix}ValidatorAddress")).data(parameters.validator_contract);
    json.key("RelayerRegistrationAddress").data(parameters.relayer_registration);
    json.key(&format!("{prefix}XListingAddress")).data(parameters.exchange_listing);
    json.key(&format!("{prefix}ZAddress")).data(parameters.token_issuer);
    json.key("LendingAddress").data(parameters.lending_registration);
    json.key("ConsensusConfigs").begin_object();
    write_number(json.key("period"), parameters.period);
    write_number(json.key("epoch"), parameters.epoch);
    write_number(json.key("reward"), parameters.reward);
    write_number(json.key("rewardCheckpoint"), parameters.reward_checkpoint);
    write_number(json.key("gap"), parameters.gap);
    // The reference's spelling.
    json.key("foudationWalletAddr").data(parameters.foundation_wallet);
    json.key("SkipV1Validation").boolean(parameters.skips_v1_validation);
    write_v2(json.key("v2"), &parameters);
    json.end_object();
    json.end_object();
    Ok(json)
}

fn write_v2(json: &mut JsonWriter, parameters: &ConsensusParameters) {
    json.begin_object();
    write_number(json.key("SwitchEpoch"), parameters.switch_epoch);
    write_number(json.key("switchBlock"), parameters.switch_block);
    json.key("config");
    match parameters.rounds.iter().find(|(round, _)| *round == parameters.current) {
        Some((_, current)) => write_round(json, current),
        None => json.null(),
    }
    // Sorted as strings, as Go's JSON encoder sorts the keys of a map.
    let mut rounds: Vec<(String, &RoundParameters)> =
        parameters.rounds.iter().map(|(round, entry)| (round.to_string(), entry)).collect();
    rounds.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    json.key("allConfigs").begin_object();
    for (round, entry) in rounds {
        write_round(json.key(&round), entry);
    }
    json.end_object();
    json.end_object();
}

fn write_round(json: &mut JsonWriter, round: &RoundParameters) {
    json.begin_object();
    write_number(json.key("maxMasternodes"), round.max_masternodes);
    write_number(json.key("switchRound"), round.switch_round);
    write_number(json.key("minePeriod"), round.mine_period);
    write_number(json.key("timeoutSyncThreshold"), round.timeout_sync_threshold);
    write_number(json.key("timeoutPeriod"), round.timeout_period);
    json.key("certificateThreshold").float(round.certificate_threshold);
    json.key("expTimeoutConfig").begin_object();
    json.key("base").float(round.timeout_base);
    write_number(json.key("maxExponent"), u64::from(round.timeout_max_exponent));
    json.end_object();
    json.end_object();
}
