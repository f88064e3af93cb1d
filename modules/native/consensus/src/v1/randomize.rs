//! The numbers of second signers in a checkpoint, drawn from the secrets that the masternodes stored in the randomize
//! contract (`docs/spec/consensus.md` 2.5, "Numbers V"; `docs/spec/chain.md` 10.3).

use aes::{
    Aes256,
    cipher::{BlockCipherEncrypt, KeyInit},
};
use alloy_primitives::address;
use tenon_api::{Address, B256, StateReader, StoreError, U256};
use tenon_chain::mapping_slot;

use super::{V1Error, go_base64};
use crate::{contract_slots::read_array, go_random::GoRandom};

/// The randomize contract.
const CONTRACT: Address = address!("0000000000000000000000000000000000000090");
/// Second signers are drawn only for checkpoints whose height is a multiple of this, even if an epoch has another length (2.5).
pub(super) const RANDOMIZE_EPOCH: u64 = 900;
/// Length of a cipher block, and of the initial vector before each secret.
const BLOCK_BYTES: usize = 16;
/// Position of the contract's mapping from masternodes to secrets.
const SECRETS_POSITION: U256 = U256::ZERO;
/// Position of its mapping to openings.
const OPENINGS_POSITION: U256 = U256::ONE;

/// The data of one masternode in the contract.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RandomizeEntry {
    /// `getSecret`: encrypted numbers, committed to in the blocks 800 to 849 of the epoch.
    pub secrets: Vec<B256>,
    /// `getOpening`: the key to them, published in the blocks 850 to 899.
    pub opening: B256,
}

impl RandomizeEntry {
    /// Reads the data of `masternode` from the state before the checkpoint.
    ///
    /// # Errors
    /// [`StoreError`] when the state can't be read.
    pub fn read(state: &dyn StateReader, masternode: Address) -> Result<Self, StoreError> {
        let key = masternode.into_word();
        let secrets = read_array(state, CONTRACT, mapping_slot(key, SECRETS_POSITION))?;
        let opening = state.storage(CONTRACT, mapping_slot(key, OPENINGS_POSITION))?.into();
        Ok(Self { secrets, opening })
    }

    /// The number that the masternode committed to: the last secret that decrypts to one, 0 if none does.
    pub fn number(&self) -> i64 {
        self.secrets.iter().rev().find_map(|secret| open(secret, &self.opening)).unwrap_or(0)
    }
}

/// Decrypts one secret; `None` if it is too short or not a decimal number.
fn open(secret: &B256, opening: &B256) -> Option<i64> {
    let start = secret.iter().position(|byte| *byte != 0).unwrap_or(secret.len());
    let sealed = go_base64::decode_url_safe(&secret[start..]);
    let (vector, cipher_text) = sealed.split_first_chunk::<BLOCK_BYTES>()?;
    let plain = decrypt(&opening.0, vector, cipher_text);
    std::str::from_utf8(&plain).ok()?.parse().ok()
}

/// AES-256 in cipher feedback mode with whole blocks: each encrypted block of the cipher text is the key stream of the
/// next.
fn decrypt(key: &[u8; 32], vector: &[u8; BLOCK_BYTES], cipher_text: &[u8]) -> Vec<u8> {
    let cipher = Aes256::new(&(*key).into());
    let mut register = *vector;
    let mut plain = Vec::with_capacity(cipher_text.len());
    for block in cipher_text.chunks(BLOCK_BYTES) {
        let mut stream = register.into();
        cipher.encrypt_block(&mut stream);
        plain.extend(block.iter().zip(stream.iter()).map(|(cipher_byte, key_byte)| cipher_byte ^ key_byte));
        register[..block.len()].copy_from_slice(block);
    }
    plain
}

/// Draws a number for each of `count` masternodes: a permutation without fixed points if there are two or more.
/// `numbers` are the masternodes' commitments; their sum is the seed.
///
/// # Errors
/// [`V1Error::NoMasternodes`] for an empty list.
pub fn draw_second_signers(numbers: impl IntoIterator<Item = i64>, count: u32) -> Result<Vec<u32>, V1Error> {
    if count == 0 {
        return Err(V1Error::NoMasternodes);
    }
    let seed = numbers.into_iter().fold(0_i64, i64::wrapping_add);
    let mut random = GoRandom::seeded(seed);
    let mut pool: Vec<u32> = (0..count).collect();
    let mut drawn = Vec::with_capacity(pool.len());
    while let Some(last) = pool.len().checked_sub(1) {
        let bound = u32::try_from(last).unwrap_or(u32::MAX);
        let chosen = usize::try_from(random.below(bound)).unwrap_or(0);
        pool.swap(chosen, last);
        drawn.extend(pool.pop());
    }
    drawn.reverse();
    Ok(drawn)
}

/// The numbers of a checkpoint with this list of masternodes, in order, from the state of the previous block.
///
/// # Errors
/// [`V1Error::NoMasternodes`] for an empty list, [`V1Error::Store`] when the state can't be read.
pub(super) fn second_signer_numbers(state: &dyn StateReader, masternodes: &[Address]) -> Result<Vec<u32>, V1Error> {
    let read = |masternode: &Address| RandomizeEntry::read(state, *masternode).map(|entry| entry.number());
    let numbers = masternodes.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    draw_second_signers(numbers, u32::try_from(masternodes.len()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;
    use proptest::prelude::*;

    use super::*;
    use crate::test_data;

    #[test]
    fn opens_the_published_secrets() {
        let vectors = test_data::consensus_vectors();
        let vector = &vectors["randomizeDecode_derived"];
        let opening: B256 = vector["openingKey"].as_str().unwrap().parse().unwrap();

        for case in vector["cases"].as_array().unwrap() {
            let secret: B256 = case["secretWord"].as_str().unwrap().parse().unwrap();
            let entry = RandomizeEntry { secrets: vec![secret], opening };

            assert_eq!(entry.number(), case["number"].as_i64().unwrap());
            let sealed = go_base64::decode_url_safe(case["base64"].as_str().unwrap().as_bytes());
            assert_eq!(hex::encode_prefixed(&sealed[..BLOCK_BYTES]), vector["iv"].as_str().unwrap());
        }
    }

    #[test]
    fn the_last_secret_that_opens_counts() {
        let vectors = test_data::consensus_vectors();
        let vector = &vectors["randomizeDecode_derived"];
        let opening = vector["openingKey"].as_str().unwrap().parse().unwrap();
        let word = |index: usize| vector["cases"][index]["secretWord"].as_str().unwrap().parse::<B256>().unwrap();

        let entry = RandomizeEntry { secrets: vec![word(2), word(0), B256::ZERO, B256::repeat_byte(0x41)], opening };

        assert_eq!(entry.number(), 427);
        assert_eq!(RandomizeEntry { opening: B256::ZERO, ..entry }.number(), 0, "another key decrypts no secret");
        assert_eq!(RandomizeEntry::default().number(), 0);
    }

    #[test]
    fn draws_the_published_partners() {
        let vectors = test_data::consensus_vectors();

        for case in vectors["m2_derived"].as_array().unwrap() {
            let numbers: Vec<i64> = serde_json::from_value(case["randomizes"].clone()).unwrap();
            let count = u32::try_from(case["n"].as_u64().unwrap()).unwrap();
            let wanted: Vec<u32> = serde_json::from_value(case["m2"].clone()).unwrap();

            assert_eq!(numbers.iter().sum::<i64>(), case["seed"].as_i64().unwrap());
            assert_eq!(draw_second_signers(numbers, count).unwrap(), wanted);
        }
    }

    proptest! {
        #[test]
        fn no_masternode_is_its_own_partner(seed in any::<i64>(), count in 2_u32..150) {
            let partners = draw_second_signers([seed], count).unwrap();

            prop_assert!(partners.iter().enumerate().all(|(place, partner)| place != *partner as usize));
            let mut sorted = partners;
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..count));
        }
    }
}
