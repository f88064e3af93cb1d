//! Blocks, uncles and headers (`docs/spec/rpc-eth.md` 6.1, 6.2, `docs/spec/conformance.md` 3.2).

use alloy_primitives::{B256, U256};
use tenon_api::{
    Header, NativeSeal, SealedHeader, Withdrawal,
    messages::{BlockOutline, Profile, StoredBlock},
};

use super::{
    JsonWriter, TransactionPlace,
    family_members::{FamilyMembers, profile_of},
    write_transaction,
};

/// Capacity for a block without transactions: the bloom alone has 514 characters.
const HEADER_BYTES: usize = 2000;
/// Capacity for a transaction without its input.
const TRANSACTION_BYTES: usize = 900;

/// Options of a block's JSON.
#[derive(Clone, Copy, Debug)]
pub struct BlockJson<'a> {
    /// The profile that decides its members.
    pub profile: Profile,
    /// The block represents the pending one: it has no hash, nonce and miner yet.
    pub as_pending: bool,
    /// The hashes of its uncles; a block carries their headers only.
    pub uncle_hashes: &'a [B256],
}

impl BlockJson<'_> {
    /// The block as JSON, with whole transactions.
    pub fn write(&self, stored: &StoredBlock) -> JsonWriter {
        let block = &stored.block;
        let input: usize = block.transactions.iter().map(|transaction| transaction.input.len() * 2).sum();
        let bytes = input + block.transactions.len() * TRANSACTION_BYTES;
        self.write_around(&BlockFrame::of(stored), bytes, |json| self.write_transactions(json, stored))
    }

    /// The block's members in an object that the caller has opened, with whole transactions or their hashes.
    pub(super) fn write_members(&self, json: &mut JsonWriter, stored: &StoredBlock, has_whole_transactions: bool) {
        self.write_frame(json, &BlockFrame::of(stored), |json| {
            if has_whole_transactions {
                self.write_transactions(json, stored);
            } else {
                stored.block.transactions.iter().for_each(|transaction| json.data(transaction.hash));
            }
        });
    }

    fn write_transactions(&self, json: &mut JsonWriter, stored: &StoredBlock) {
        let block = &stored.block;
        for (index, (transaction, sender)) in block.transactions.iter().zip(&block.senders).enumerate() {
            let place = TransactionPlace::in_block(&block.header, index as u64);
            write_transaction(json, self.profile, transaction, *sender, Some(&place));
        }
    }

    /// The block as JSON, with the hashes of its transactions.
    pub fn write_outline(&self, outline: &BlockOutline) -> JsonWriter {
        let frame = BlockFrame {
            header: &outline.header,
            size: outline.size,
            total_difficulty: outline.total_difficulty,
            withdrawals: outline.withdrawals.as_deref(),
        };
        self.write_around(&frame, outline.transactions.len() * 70, |json| {
            outline.transactions.iter().for_each(|hash| json.data(hash));
        })
    }

    /// `bytes` is the capacity for the items of the list of transactions, which `write_transactions` writes.
    fn write_around(
        &self,
        frame: &BlockFrame<'_>,
        bytes: usize,
        write_transactions: impl FnOnce(&mut JsonWriter),
    ) -> JsonWriter {
        let header = frame.header;
        let capacity = HEADER_BYTES + bytes + header.extra_data.len() * 2 + native_bytes(header);
        let mut json = JsonWriter::with_capacity(capacity);
        json.begin_object();
        self.write_frame(&mut json, frame, write_transactions);
        json.end_object();
        json
    }

    fn write_frame(
        &self,
        json: &mut JsonWriter,
        frame: &BlockFrame<'_>,
        write_transactions: impl FnOnce(&mut JsonWriter),
    ) {
        let header = frame.header;
        let members = HeaderMembers {
            hash: header.hash(),
            size: Some(frame.size),
            total_difficulty: Some(Some(frame.total_difficulty)),
            as_pending: self.as_pending,
        };
        write_members_before_transactions(json, self.profile, header, &members);
        json.key("transactions");
        json.begin_list();
        write_transactions(json);
        json.end_list();
        write_members_after_transactions(json, self.profile, header, self.uncle_hashes);
        if let Some(withdrawals) = frame.withdrawals {
            json.key("withdrawals");
            write_withdrawals(json, withdrawals);
        }
        if let Some(root) = header.withdrawals_root {
            json.key("withdrawalsRoot").data(root);
        }
    }
}

/// Content of a block object besides its transactions and uncles.
struct BlockFrame<'a> {
    header: &'a SealedHeader,
    size: u64,
    total_difficulty: U256,
    withdrawals: Option<&'a [Withdrawal]>,
}

impl<'a> BlockFrame<'a> {
    fn of(stored: &'a StoredBlock) -> Self {
        let block = &stored.block;
        Self {
            header: &block.header,
            size: block.size,
            total_difficulty: stored.total_difficulty,
            withdrawals: block.withdrawals.as_deref(),
        }
    }
}

fn native_bytes(header: &Header) -> usize {
    header.native_seal.as_ref().map_or(0, |seal| (seal.validators.len() + seal.penalties.len()) * 2 + 200)
}

/// Content of a header object besides the header.
struct HeaderMembers {
    hash: B256,
    size: Option<u64>,
    /// The member `totalDifficulty` of native chains: `None` omits it, `Some(None)` is `null`.
    total_difficulty: Option<Option<U256>>,
    as_pending: bool,
}

/// A header: a block object without transactions, uncles and size.
pub fn write_header_of_block(profile: Profile, header: &SealedHeader, as_pending: bool) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(HEADER_BYTES + header.extra_data.len() * 2 + native_bytes(header));
    let members = HeaderMembers { hash: header.hash(), size: None, total_difficulty: None, as_pending };
    json.begin_object();
    write_members_before_transactions(&mut json, profile, header, &members);
    json.key("transactionsRoot").data(header.transactions_root);
    write_seal(&mut json, profile, header);
    if let Some(root) = header.withdrawals_root {
        json.key("withdrawalsRoot").data(root);
    }
    json.end_object();
    json
}

/// An uncle: a block without transactions. `hash` and `size` are those of a block with this header and an
/// empty body.
pub fn write_uncle(profile: Profile, header: &Header, hash: B256, size: u64) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(HEADER_BYTES);
    let members = HeaderMembers { hash, size: Some(size), total_difficulty: Some(None), as_pending: false };
    json.begin_object();
    write_members_before_transactions(&mut json, profile, header, &members);
    write_members_after_transactions(&mut json, profile, header, &[]);
    json.end_object();
    json
}

/// Members in alphabetical order up to `totalDifficulty`, as in the reference.
fn write_members_before_transactions(
    json: &mut JsonWriter,
    profile: Profile,
    header: &Header,
    members: &HeaderMembers,
) {
    if let Some(base_fee) = header.base_fee_per_gas {
        json.key("baseFeePerGas").quantity(base_fee);
    }
    if let Some(gas) = header.blob_gas_used {
        json.key("blobGasUsed").quantity(gas);
    }
    json.key("difficulty").quantity_256(header.difficulty);
    if let Some(gas) = header.excess_blob_gas {
        json.key("excessBlobGas").quantity(gas);
    }
    json.key("extraData").data(&header.extra_data);
    json.key("gasLimit").quantity(header.gas_limit);
    json.key("gasUsed").quantity(header.gas_used);
    json.key("hash").optional_data((!members.as_pending).then_some(members.hash));
    json.key("logsBloom").data(header.logs_bloom);
    json.key("miner").optional_data((!members.as_pending).then_some(header.beneficiary));
    json.key("mixHash").data(header.mix_hash);
    json.key("nonce").optional_data((!members.as_pending).then_some(header.nonce));
    json.key("number").quantity(header.number);
    if let Some(root) = header.parent_beacon_block_root {
        json.key("parentBeaconBlockRoot").data(root);
    }
    json.key("parentHash").data(header.parent_hash);
    if let Some(seal) = native_seal(profile, header) {
        json.key("penalties").data(&seal.penalties);
    }
    json.key("receiptsRoot").data(header.receipts_root);
    if let Some(hash) = header.requests_hash {
        json.key("requestsHash").data(hash);
    }
    json.key("sha3Uncles").data(header.ommers_hash);
    if let Some(size) = members.size {
        json.key("size").quantity(size);
    }
    json.key("stateRoot").data(header.state_root);
    json.key("timestamp").quantity(header.timestamp);
    if let Some(total_difficulty) = members.total_difficulty.filter(|_| FamilyMembers::of(profile).has_total_difficulty)
    {
        match total_difficulty {
            Some(total) => json.key("totalDifficulty").quantity_256(total),
            None => json.key("totalDifficulty").null(),
        }
    }
}

fn write_members_after_transactions(json: &mut JsonWriter, profile: Profile, header: &Header, uncles: &[B256]) {
    json.key("transactionsRoot").data(header.transactions_root);
    json.key("uncles");
    json.begin_list();
    for hash in uncles {
        json.data(hash);
    }
    json.end_list();
    write_seal(json, profile, header);
}

fn write_seal(json: &mut JsonWriter, profile: Profile, header: &Header) {
    if let Some(seal) = native_seal(profile, header) {
        json.key("validator").data(&seal.validator);
        json.key("validators").data(&seal.validators);
    }
}

/// The three native items. A native chain's header always has them, so an absent seal is written as empty.
fn native_seal(profile: Profile, header: &Header) -> Option<NativeSeal> {
    FamilyMembers::of(profile).has_native_items.then(|| header.native_seal.clone().unwrap_or_default())
}

fn write_withdrawals(json: &mut JsonWriter, withdrawals: &[Withdrawal]) {
    json.begin_list();
    for withdrawal in withdrawals {
        json.begin_object();
        json.key("index").quantity(withdrawal.index);
        json.key("validatorIndex").quantity(withdrawal.validator_index);
        json.key("address").data(withdrawal.address);
        json.key("amount").quantity(withdrawal.amount);
        json.end_object();
    }
    json.end_list();
}

/// The header object that `newHeads` announces.
pub fn write_header(profile: Profile, header: &SealedHeader) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(HEADER_BYTES + header.extra_data.len() * 2 + native_bytes(header));
    json.begin_object();
    json.key("parentHash").data(header.parent_hash);
    json.key("sha3Uncles").data(header.ommers_hash);
    json.key("miner").data(header.beneficiary);
    json.key("stateRoot").data(header.state_root);
    json.key("transactionsRoot").data(header.transactions_root);
    json.key("receiptsRoot").data(header.receipts_root);
    json.key("logsBloom").data(header.logs_bloom);
    json.key("difficulty").quantity_256(header.difficulty);
    json.key("number").quantity(header.number);
    json.key("gasLimit").quantity(header.gas_limit);
    json.key("gasUsed").quantity(header.gas_used);
    json.key("timestamp").quantity(header.timestamp);
    json.key("extraData").data(&header.extra_data);
    json.key("mixHash").data(header.mix_hash);
    json.key("nonce").data(header.nonce);
    write_header_by_profile(&mut json, profile, header);
    json.key("hash").data(header.hash());
    json.end_object();
    json
}

/// The header object that `newHeads` announces, for a header whose chain is not known: its seal shows the family.
pub fn write_header_by_seal(header: &SealedHeader) -> JsonWriter {
    write_header(profile_of(header), header)
}

/// The native items travel as base64 in announcements only, because the reference marshals them as Go byte
/// slices there (`docs/spec/rpc-eth.md` 6.2).
fn write_header_by_profile(json: &mut JsonWriter, profile: Profile, header: &Header) {
    if let Some(seal) = native_seal(profile, header) {
        json.key("validators").string(&base64(&seal.validators));
        json.key("validator").string(&base64(&seal.validator));
        json.key("penalties").string(&base64(&seal.penalties));
    }
    match header.base_fee_per_gas {
        Some(base_fee) => json.key("baseFeePerGas").quantity(base_fee),
        None => json.key("baseFeePerGas").null(),
    }
    if !FamilyMembers::of(profile).announces_later_roots {
        return;
    }
    json.key("withdrawalsRoot").optional_data(header.withdrawals_root);
    for (name, gas) in [("blobGasUsed", header.blob_gas_used), ("excessBlobGas", header.excess_blob_gas)] {
        match gas {
            Some(gas) => json.key(name).quantity(gas),
            None => json.key(name).null(),
        }
    }
    json.key("parentBeaconBlockRoot").optional_data(header.parent_beacon_block_root);
    json.key("requestsHash").optional_data(header.requests_hash);
}

/// Base64 of bytes: standard alphabet with padding, as Go writes byte slices in JSON.
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let joined = group.iter().fold(0_u32, |joined, byte| joined << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for position in 0..4 {
            if position <= group.len() {
                let index = (joined >> (18 - 6 * position)) & 0x3f;
                text.push(char::from(ALPHABET[index as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads_to_groups_of_four() {
        let cases: [(&[u8], &str); 5] =
            [(b"", ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (&[0xff, 0xfe, 0xfd, 0xfc], "//79/A==")];

        for (bytes, expected) in cases {
            assert_eq!(base64(bytes), expected);
        }
    }
}
