//! Accounts, code, storage and proofs: `docs/spec/rpc-eth.md` 8, 18.

use tenon_sdk::{
    param::{Object, ParamDescription},
    prelude::*,
    shapes::JsonWriter,
};

use crate::{
    Answer, EthContext, StateBlock, block_or_default, block_or_latest,
    dialect::Dialect,
    storage_key::{MAX_PROOF_KEYS, StorageKey},
    write_data_list,
};

/// Maximum number of slots of one `eth_getStorageValues`.
const MAX_SLOTS: usize = 1024;

pub(crate) async fn get_balance(context: EthContext, address: Address, block: StateBlock) -> Answer {
    let block = block_or_default(&context, block, 1).await?;
    let account = context.call(GetAccount { address, block }).await?;
    let mut json = JsonWriter::with_capacity(72);
    json.balance(&account);
    Ok(json)
}

/// `pending` is read from the pool, everything else from the state.
pub(crate) async fn get_transaction_count(
    context: EthContext,
    address: Address,
    block: StateBlock,
) -> Result<Quantity, Failure> {
    let block = block_or_default(&context, block, 1).await?;
    let nonce = match block {
        BlockId::Tag(BlockTag::Pending) => context.call(GetPoolNonce { address }).await?,
        block => context.call(GetAccount { address, block }).await?.nonce,
    };
    Ok(Quantity(nonce))
}

pub(crate) async fn get_code(context: EthContext, address: Address, block: StateBlock) -> Answer {
    let block = block_or_default(&context, block, 1).await?;
    let code = context.call(GetCode { address, block }).await?;
    let mut json = JsonWriter::with_capacity(code.len() * 2 + 4);
    json.data(&code);
    Ok(json)
}

pub(crate) async fn get_storage_at(
    context: EthContext,
    address: Address,
    key: String,
    block: StateBlock,
) -> Result<B256, Failure> {
    let block = block_or_default(&context, block, 2).await?;
    let slot = match crate::dialect(&context).await?.reads_storage_keys_leniently {
        true => StorageKey::parse_leniently(&key),
        false => StorageKey::parse(&key)?.slot,
    };
    let value = context.call(GetStorage { address, slot, block }).await?;
    Ok(B256::from(value))
}

/// Slots of one or more accounts: address to keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorageKeys(Vec<(Address, Vec<B256>)>);

impl Param for StorageKeys {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let object = Object::decode(raw, "map[common.Address][]common.Hash")?;
        let account = |(name, keys): (&str, RawArgument<'_>)| {
            let address = Address::decode(RawArgument::new(&format!("\"{name}\"")))?;
            let not_a_list = || ArgumentError::mismatch(keys.kind(), "[]common.Hash");
            let keys = keys.array().ok_or_else(not_a_list)?.map(B256::decode).collect::<Result<_, _>>()?;
            Ok((address, keys))
        };
        object.members().map(account).collect::<Result<_, _>>().map(Self)
    }

    fn description() -> ParamDescription {
        ParamDescription::required(
            r#"{"type":"object","additionalProperties":{"type":"array","items":{"type":"string"}}}"#,
        )
    }
}

/// Many slots after one block.
pub(crate) async fn get_storage_values(
    context: EthContext,
    StorageKeys(mut accounts): StorageKeys,
    block: Option<BlockParam>,
) -> Answer {
    let count = accounts.iter().map(|(_, keys)| keys.len()).fold(0, usize::saturating_add);
    if count > MAX_SLOTS {
        return Err(Failure {
            code: FailureCode::CLIENT_LIMIT,
            ..Failure::server(format!("too many slots (max {MAX_SLOTS})"))
        });
    }
    if count == 0 {
        return Err(Failure::invalid_params("empty request"));
    }
    let block = block_or_latest(&context, block, 1).await?;
    // All slots are from one block, even if the head moves in between.
    let header = context.call(GetHeader { block }).await?.ok_or_else(|| Failure::server("header not found"))?;
    let block = BlockId::hash(header.header.hash());
    accounts.sort_by_key(|(address, _)| *address);
    let mut json = JsonWriter::with_capacity(count * 70 + accounts.len() * 50 + 4);
    json.begin_object();
    for (address, keys) in accounts {
        json.key(&format!("{address:#x}"));
        json.begin_list();
        for slot in keys {
            json.data(B256::from(context.call(GetStorage { address, slot, block }).await?));
        }
        json.end_list();
    }
    json.end_object();
    Ok(json)
}

/// The storage keys of a proof. More than the limit are counted and not kept.
pub(crate) enum ProofKeys {
    Some(Vec<String>),
    TooMany(usize),
}

impl Param for ProofKeys {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        match raw.array().map(Iterator::count) {
            Some(count) if count > MAX_PROOF_KEYS => Ok(Self::TooMany(count)),
            _ => Json::decode(raw).map(|Json(keys)| Self::Some(keys)),
        }
    }
}

pub(crate) async fn get_proof(
    context: EthContext,
    address: Address,
    keys: ProofKeys,
    block: Option<BlockParam>,
) -> Answer {
    let keys = match keys {
        ProofKeys::Some(keys) => keys,
        ProofKeys::TooMany(count) => {
            let message = format!("too many storage keys requested (max {MAX_PROOF_KEYS}, got {count})");
            return Err(Failure::invalid_params(message));
        }
    };
    let keys = keys.iter().map(|key| StorageKey::parse(key)).collect::<Result<Vec<_>, _>>()?;
    let dialect = crate::dialect(&context).await?;
    // The block is optional on both profiles.
    let block = block_or_latest(&context, block, 2).await?;
    let slots = keys.iter().map(|key| key.slot).collect();
    let proof = context.call(GetProof { address, slots, block }).await?;
    Ok(proof_json(dialect, &proof, &keys))
}

/// The answer of `eth_getProof`.
fn proof_json(dialect: &Dialect, proof: &AccountProof, keys: &[StorageKey]) -> JsonWriter {
    let nodes: usize =
        proof.proof.iter().chain(proof.storage.iter().flat_map(|slot| &slot.proof)).map(|node| node.len()).sum();
    let mut json = JsonWriter::with_capacity(nodes * 2 + proof.storage.len() * 200 + 600);
    let account = &proof.account;
    let is_missing = dialect.missing_account_has_zero_hashes && *account == Account::default();
    json.begin_object();
    json.key("address").data(proof.address);
    json.key("accountProof");
    write_data_list(&mut json, &proof.proof);
    json.key("balance").balance(account);
    json.key("codeHash").data(if is_missing { B256::ZERO } else { account.code_hash });
    json.key("nonce").quantity(account.nonce);
    json.key("storageHash").data(if is_missing { B256::ZERO } else { account.storage_root });
    json.key("storageProof");
    json.begin_list();
    for (slot, key) in proof.storage.iter().zip(keys) {
        json.begin_object();
        json.key("key");
        if key.is_full_length {
            json.data(slot.slot);
        } else {
            json.quantity_256(slot.slot.into());
        }
        json.key("value").quantity_256(slot.value);
        json.key("proof");
        write_data_list(&mut json, &slot.proof);
        json.end_object();
    }
    json.end_list();
    json.end_object();
    json
}
