//! Random transactions relevant to consensus: signatures of blocks, changing candidates, secrets.

use std::{collections::HashMap, sync::Arc};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use tenon_api::{ChainReader as _, RecoveredTransaction, Transaction, TransactionPayload, TransactionSignature};
use tenon_differential_tests::{Node, SplitMix64};
use tenon_native_consensus::v2::MasternodeKey;

use crate::{
    Facts, Network,
    model::{RANDOMIZE, SET_OPENING, SET_SECRET, SIGN, SIGNING, secret},
    model_engine::BASE_FEE,
    network::{CHAIN_ID, MIN_CANDIDATE_COINS, MIN_VOTER_COINS, coins},
    voting_table::{PROPOSE, RESIGN, UNVOTE, UPLOAD_KYC, VOTE, VOTING},
};

/// Minimum number of remaining candidates, so that the network survives.
const MIN_CANDIDATES: usize = 4;
/// Price of ordinary transactions, wei.
const PRICE: u64 = 2 * BASE_FEE;

/// The transactions of one block.
pub(crate) struct Traffic<'a> {
    network: &'a Network,
    random: &'a mut SplitMix64,
    node: &'a Node,
    nonces: HashMap<Address, u64>,
    transactions: Vec<RecoveredTransaction>,
}

fn words(selector: [u8; 4], arguments: &[B256]) -> Bytes {
    selector.iter().copied().chain(arguments.iter().flat_map(|word| word.0)).collect::<Vec<u8>>().into()
}

impl<'a> Traffic<'a> {
    /// The transactions of the block on this parent; `silent` make no blocks.
    pub(crate) fn of_block(
        network: &'a Network,
        random: &'a mut SplitMix64,
        node: &'a Node,
        parent: &Facts,
        recent: &[B256],
        silent: &[Address],
    ) -> Vec<RecoveredTransaction> {
        let mut traffic = Self { network, random, node, nonces: HashMap::new(), transactions: Vec::new() };
        traffic.signatures(parent, recent, silent);
        if traffic.random.chance(12) {
            traffic.governance(parent);
        }
        traffic.secrets(parent);
        traffic.transactions
    }

    fn send(&mut self, key: &MasternodeKey, to: Address, value: U256, input: Bytes, price: u64) {
        let sender = key.address();
        let state = self.node.store.state_at(self.node.store.head().number()).unwrap();
        let nonce =
            self.nonces.entry(sender).or_insert_with(|| state.account(sender).unwrap().unwrap_or_default().nonce);
        let mut transaction = Transaction {
            hash: B256::ZERO,
            chain_id: Some(CHAIN_ID),
            nonce: *nonce,
            gas_limit: if price == 0 { 200_000 } else { 1_000_000 },
            to: Some(to),
            value,
            input,
            payload: TransactionPayload::Legacy { gas_price: U256::from(price) },
            signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
        };
        *nonce += 1;
        let signature = key.sign(tenon_chain::signing_hash(&transaction));
        transaction.signature = TransactionSignature {
            v: CHAIN_ID * 2 + 35 + u64::from(signature[64]),
            r: U256::from_be_slice(&signature[..32]),
            s: U256::from_be_slice(&signature[32..64]),
        };
        transaction.hash = tenon_chain::transaction_hash(&transaction);
        self.transactions.push(RecoveredTransaction { transaction: Arc::new(transaction), sender });
    }

    /// Most masternodes sign the block that is due; some sign others, late, twice, or without being masternodes.
    fn signatures(&mut self, parent: &Facts, recent: &[B256], silent: &[Address]) {
        let network = self.network;
        let is_due = parent.number > 0 && parent.number.is_multiple_of(15);
        for (who, key) in &network.candidates {
            let percent = match (is_due, silent.contains(who)) {
                (true, false) => 80,
                (true, true) => 15,
                (false, _) => 1,
            };
            if !self.random.chance(percent) {
                continue;
            }
            let signed = if is_due && self.random.chance(95) { parent.hash } else { *self.random.one_of(recent) };
            // The number in the data is ignored.
            let number = B256::from(U256::from(self.random.below(parent.number + 2)));
            self.send(key, SIGNING, U256::ZERO, words(SIGN, &[number, signed]), 0);
        }
    }

    /// Proposes, votes, withdraws a vote, or resigns; some of it fails.
    fn governance(&mut self, parent: &Facts) {
        let network = self.network;
        let owners: Vec<Address> = network.owners.keys().copied().collect();
        let names: Vec<Address> = network.candidates.keys().copied().collect();
        let (owner, candidate) = (*self.random.one_of(&owners), *self.random.one_of(&names));
        let key = &network.owners[&owner];
        let word = candidate.into_word();
        match self.random.below(10) {
            0..=3 => {
                let text = [B256::with_last_byte(32), B256::with_last_byte(3), B256::right_padding_from(b"kyc")];
                if self.random.chance(50) {
                    self.send(key, VOTING, U256::ZERO, words(UPLOAD_KYC, &text), PRICE);
                }
                let stake = MIN_CANDIDATE_COINS - 10 + 100 * self.random.below(4) + 10 * self.random.below(2);
                self.send(key, VOTING, coins(stake), words(PROPOSE, &[word]), PRICE);
            }
            4..=6 => {
                let stake = MIN_VOTER_COINS * self.random.below(30);
                self.send(key, VOTING, coins(stake), words(VOTE, &[word]), PRICE);
            }
            7 => {
                let stake = B256::from(coins(MIN_VOTER_COINS * self.random.below(20)));
                self.send(key, VOTING, U256::ZERO, words(UNVOTE, &[word, stake]), PRICE);
            }
            _ if parent.table.count() > MIN_CANDIDATES => {
                let owner = parent.table.owner(candidate);
                let key = network.owners.get(&owner).filter(|_| self.random.chance(80)).unwrap_or(key);
                self.send(key, VOTING, U256::ZERO, words(RESIGN, &[word]), PRICE);
            }
            _ => {}
        }
    }

    /// Masternodes commit to numbers and reveal them, some too late or never.
    fn secrets(&mut self, parent: &Facts) {
        let (network, place) = (self.network, (parent.number + 1) % 900);
        if parent.number >= network.switch_block || place < 798 {
            return;
        }
        for who in &parent.epoch.masternodes {
            if !self.random.chance(4) {
                continue;
            }
            let key = &network.candidates[who];
            let opening = keccak256(who);
            if place < 852 && self.random.chance(90) {
                let vector = self.random.number().to_be_bytes();
                let vector = [vector, vector].concat().try_into().unwrap();
                let secret = secret(self.random.below(900), &opening, &vector);
                let arguments = [B256::with_last_byte(32), B256::with_last_byte(1), secret];
                self.send(key, RANDOMIZE, U256::ZERO, words(SET_SECRET, &arguments), PRICE);
            } else {
                self.send(key, RANDOMIZE, U256::ZERO, words(SET_OPENING, &[opening]), PRICE);
            }
        }
    }
}
