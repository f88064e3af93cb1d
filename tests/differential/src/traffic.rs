//! Random transactions of every type between a few accounts and contracts of random code.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use secp256k1::{Message, SECP256K1, SecretKey};
use serde_json::Value;
use tenon_accounts::Accounts;
use tenon_api::{
    AccessListItem, ChainReader as _, RecoveredTransaction, SealAttributes, SignedAuthorization, StateReader,
    Transaction, TransactionPayload, TransactionSignature, messages::CallRequest,
};
use tenon_chain::{Genesis, authorization_signing_hash, signing_hash, transaction_hash};
use tenon_config::{DEVELOPMENT_MNEMONIC, DevGenesis};

use crate::{Node, SplitMix64};

const CHAIN_ID: u64 = 31_337;
const SENDERS: u32 = 6;
/// Number of accounts that send nothing themselves and delegate to contracts.
const AUTHORITIES: u32 = 3;
const GAS_LIMIT: u64 = 30_000_000;
const GWEI: u64 = 1_000_000_000;

/// The genesis of a development network with the senders of [`Traffic`].
///
/// # Panics
/// If it cannot be read.
pub fn development_genesis() -> Genesis {
    Genesis::from_json(&genesis_text()).unwrap()
}

/// The same with each fork since Paris `seconds` after the previous one.
///
/// # Panics
/// If it cannot be read.
pub fn genesis_through_forks(seconds: u64) -> Genesis {
    let mut genesis: Value = serde_json::from_slice(&genesis_text()).unwrap();
    for (fork, name) in (1_u64..).zip(["shanghaiTime", "cancunTime", "pragueTime", "osakaTime"]) {
        genesis["config"][name] = (fork * seconds).into();
    }
    Genesis::from_json(genesis.to_string().as_bytes()).unwrap()
}

fn genesis_text() -> Vec<u8> {
    let accounts = Accounts::from_mnemonic(DEVELOPMENT_MNEMONIC, SENDERS, CHAIN_ID).unwrap();
    let balance = U256::from(1_000_u64) * U256::from(GWEI) * U256::from(GWEI);
    DevGenesis { chain_id: CHAIN_ID, gas_limit: GAS_LIMIT, accounts: accounts.addresses(), balance }.to_json()
}

/// Makes transactions and blocks.
pub struct Traffic {
    accounts: Accounts,
    senders: Vec<Address>,
    authorities: Vec<Address>,
    /// Contracts created so far, including destroyed ones.
    contracts: Vec<Address>,
    /// Other receivers.
    others: Vec<Address>,
}

impl Traffic {
    /// Traffic of the accounts of [`development_genesis`].
    ///
    /// # Panics
    /// If these accounts do not exist.
    pub fn new() -> Self {
        let accounts = Accounts::from_mnemonic(DEVELOPMENT_MNEMONIC, SENDERS + AUTHORITIES, CHAIN_ID).unwrap();
        let mut senders = accounts.addresses();
        let authorities = senders.split_off(SENDERS as usize);
        Self { accounts, senders, authorities, contracts: Vec::new(), others: vec![Address::repeat_byte(0x77)] }
    }

    /// All addresses used so far.
    pub fn addresses(&self) -> Vec<Address> {
        [&self.senders[..], &self.authorities, &self.contracts, &self.others].concat()
    }

    /// Makes a block on the head: up to a dozen transactions, some of which are invalid and left out, some of which
    /// fail.
    ///
    /// # Panics
    /// If no block can be made.
    pub fn seal(&mut self, node: &Node, random: &mut SplitMix64) {
        let head = node.store.head();
        let state = node.store.state_at(head.number()).unwrap();
        let mut transactions = Vec::new();
        for sender in self.senders.clone() {
            let mut nonce = state.account(sender).unwrap().unwrap_or_default().nonce;
            for _ in 0..random.below(3) {
                let request = self.request(random, sender, nonce);
                if request.to.is_none() {
                    self.contracts.push(sender.create(nonce));
                }
                let transaction = self.accounts.sign_transaction(&request).unwrap();
                let transaction = Arc::new(self.another_type(random, transaction, sender, &*state));
                transactions.push(RecoveredTransaction { transaction, sender });
                nonce += if random.chance(3) { 2 } else { 1 };
            }
        }
        let attributes = SealAttributes {
            timestamp: head.header.timestamp + 1 + random.below(30),
            beneficiary: *random.one_of(&[Address::repeat_byte(0xfe), self.senders[0]]),
            gas_limit: head.header.gas_limit,
            extra_data: Bytes::from(random.number().to_be_bytes().to_vec()),
            mix_hash: B256::from(U256::from(random.number())),
        };
        node.importer.produce(&attributes, transactions).unwrap_or_else(|error| panic!("{error}"));
    }

    /// One in four transactions with a tip carries blobs or authorizations instead; before its fork such a transaction
    /// is left out of the block.
    fn another_type(
        &self,
        random: &mut SplitMix64,
        mut transaction: Transaction,
        sender: Address,
        state: &dyn StateReader,
    ) -> Transaction {
        let TransactionPayload::DynamicFee { max_fee_per_gas, max_priority_fee_per_gas, access_list } =
            transaction.payload.clone()
        else {
            return transaction;
        };
        if transaction.to.is_none() || random.chance(75) {
            return transaction;
        }
        transaction.payload = if random.chance(50) {
            let blobs = 1 + random.below(3);
            let hash = |_| {
                let mut hash = B256::from(U256::from(random.number()));
                hash.0[0] = 1;
                hash
            };
            TransactionPayload::Blob {
                max_fee_per_gas,
                max_priority_fee_per_gas,
                access_list,
                blob_versioned_hashes: (0..blobs).map(hash).collect(),
                max_fee_per_blob_gas: U256::from(GWEI),
            }
        } else {
            let authorization_list = (0..1 + random.below(3)).map(|_| self.authorization(random, state)).collect();
            TransactionPayload::SetCode { max_fee_per_gas, max_priority_fee_per_gas, access_list, authorization_list }
        };
        let (y_parity, r, s) = self.signature(sender, signing_hash(&transaction));
        transaction.signature = TransactionSignature { v: u64::from(y_parity), r, s };
        transaction.hash = transaction_hash(&transaction);
        transaction
    }

    /// An authorization for a contract to act for an account, or its revocation; sometimes for another chain, or
    /// outdated.
    fn authorization(&self, random: &mut SplitMix64, state: &dyn StateReader) -> SignedAuthorization {
        let signers = if random.chance(90) { &self.authorities } else { &self.senders };
        let authority = *random.one_of(signers);
        let nonce = state.account(authority).unwrap().unwrap_or_default().nonce;
        let is_end = self.contracts.is_empty() || random.chance(15);
        let mut authorization = SignedAuthorization {
            chain_id: U256::from(*random.one_of(&[0, CHAIN_ID, CHAIN_ID, CHAIN_ID + 1])),
            address: if is_end { Address::ZERO } else { *random.one_of(&self.contracts) },
            nonce: nonce + u64::from(random.chance(20)),
            y_parity: 0,
            r: U256::ZERO,
            s: U256::ZERO,
        };
        let signature = self.signature(authority, authorization_signing_hash(&authorization));
        authorization.y_parity = signature.0;
        (authorization.r, authorization.s) = (signature.1, signature.2);
        authorization
    }

    fn signature(&self, address: Address, hash: B256) -> (u8, U256, U256) {
        let key = secret_key(&self.accounts, address);
        let signature = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(hash.0), &key);
        let (recovery, bytes) = signature.serialize_compact();
        (u8::from(i32::from(recovery) & 1 == 1), U256::from_be_slice(&bytes[..32]), U256::from_be_slice(&bytes[32..]))
    }

    /// A random call on any state.
    pub fn call(&self, random: &mut SplitMix64) -> CallRequest {
        let to = if self.contracts.is_empty() { self.others[0] } else { *random.one_of(&self.contracts) };
        CallRequest {
            from: Some(*random.one_of(&self.senders)),
            to: (!random.chance(5)).then_some(to),
            gas: Some(500_000),
            value: random.chance(20).then(|| U256::from(random.below(1_000))),
            input: if random.chance(20) { creation_code(random, &self.addresses()) } else { call_data(random) },
            ..CallRequest::default()
        }
    }

    fn request(&mut self, random: &mut SplitMix64, from: Address, nonce: u64) -> CallRequest {
        let mut request = CallRequest {
            from: Some(from),
            gas: Some(*random.one_of(&[21_000, 100_000, 400_000, 800_000])),
            nonce: Some(nonce),
            chain_id: Some(CHAIN_ID),
            value: Some(U256::from(if random.chance(50) { 0 } else { random.below(10_000) })),
            ..CallRequest::default()
        };
        match random.below(10) {
            0..=1 => {
                request.gas = Some(900_000);
                request.input = creation_code(random, &self.addresses());
            }
            2..=3 => {
                let fresh = Address::from_slice(&B256::from(U256::from(random.number())).0[12..]);
                self.others.push(fresh);
                request.to = Some(fresh);
            }
            _ if self.contracts.is_empty() => request.to = Some(self.others[0]),
            _ => {
                request.to = Some(*random.one_of(&self.contracts));
                request.input = call_data(random);
            }
        }
        let price = U256::from(GWEI * (2 + random.below(50)));
        if random.chance(50) {
            request.max_fee_per_gas = Some(price);
            request.max_priority_fee_per_gas = Some(U256::from(random.below(2 * GWEI)));
        } else {
            request.gas_price = Some(price);
        }
        if random.chance(20) {
            let storage_keys = (0..random.below(3)).map(|slot| B256::from(U256::from(slot))).collect();
            request.access_list =
                Some(vec![AccessListItem { address: *random.one_of(&self.addresses()), storage_keys }]);
        }
        request
    }
}

impl Default for Traffic {
    fn default() -> Self {
        Self::new()
    }
}

fn call_data(random: &mut SplitMix64) -> Bytes {
    let words = (0..random.below(3)).flat_map(|_| B256::from(U256::from(random.below(6))).0);
    words.collect::<Vec<u8>>().into()
}

/// Code that installs random code.
fn creation_code(random: &mut SplitMix64, addresses: &[Address]) -> Bytes {
    let code = random_code(random, addresses);
    let length = u16::try_from(code.len()).unwrap_or_default().to_be_bytes();
    // PUSH2 length, PUSH1 offset, PUSH1 0, CODECOPY, PUSH2 length, PUSH1 0, RETURN.
    let prefix = [0x61, length[0], length[1], 0x60, 14, 0x60, 0, 0x39, 0x61, length[0], length[1], 0x60, 0, 0xf3];
    [&prefix[..], &code].concat().into()
}

/// Code without backward jumps: reads and writes slots, logs, calls, creates, destroys itself; then returns what it has
/// read.
fn random_code(random: &mut SplitMix64, addresses: &[Address]) -> Vec<u8> {
    let mut code = Vec::new();
    // A running sum at the bottom of the stack.
    code.extend([0x60, 0]);
    for _ in 0..1 + random.below(8) {
        let slot = random.byte() % 6;
        match random.below(18) {
            // slot = something; sometimes zero, so that slots are created and deleted.
            0..=3 => code.extend([*random.one_of(&[0x34, 0x43, 0x36, 0x5a, 0x42, 0x3d]), 0x60, slot, 0x55]),
            // slot = call data; slot numbered by call data.
            4 => code.extend([0x60, 0, 0x35, 0x60, slot, 0x55]),
            5 => code.extend([0x33, 0x60, 32, 0x35, 0x55]),
            // sum += slot.
            6..=7 => code.extend([0x60, slot, 0x54, 0x01]),
            8 => {
                let topics = random.byte() % 5;
                (0..topics).for_each(|topic| code.extend([0x60, (slot + topic) % 4]));
                code.extend([0x60, random.byte() % 40, 0x60, 0, 0xa0 + topics]);
            }
            9..=10 => {
                // CALL with a share of the gas, no data, value 0 to 3; sum += success.
                code.extend([0x60, 32, 0x60, 0, 0x60, 0, 0x60, 0, 0x60, random.byte() % 4, 0x73]);
                code.extend(random.one_of(addresses).as_slice());
                code.extend([0x61, 0xff, 0xff, 0xf1, 0x01]);
            }
            11 => {
                // sum += balance of some account.
                code.push(0x73);
                code.extend(random.one_of(addresses).as_slice());
                code.extend([0x31, 0x01]);
            }
            12 => {
                // CREATE of a contract without code, with some of the value; its address is added.
                code.extend([0x60, 0, 0x60, 0, 0x60, random.byte() % 2, 0xf0, 0x01]);
            }
            13 => {
                // sum += something that only some forks support: a blob hash, the blob price, zero, leading zeros.
                code.extend(*random.one_of(&[
                    &[0x60, 0, 0x49, 0x01][..],
                    &[0x4a, 0x01],
                    &[0x5f, 0x01],
                    &[0x60, 7, 0x1e, 0x01],
                ]));
            }
            14 => {
                // Transient storage: written, read, added; and a memory copy.
                code.extend([0x33, 0x60, slot, 0x5d, 0x60, slot, 0x5c, 0x01]);
                code.extend([0x60, 32, 0x60, 0, 0x60, 16, 0x5e]);
            }
            15 => {
                // DELEGATECALL or STATICCALL with a share of the gas and the call data's first word; sum += success.
                code.extend([0x60, 0, 0x35, 0x60, 0, 0x52, 0x60, 32, 0x60, 0, 0x60, 32, 0x60, 0, 0x73]);
                code.extend(random.one_of(addresses).as_slice());
                code.extend([0x61, 0xff, 0xff, *random.one_of(&[0xf4, 0xfa]), 0x01]);
            }
            16 => {
                // sum += hash of some account's code.
                code.push(0x73);
                code.extend(random.one_of(addresses).as_slice());
                code.extend([0x3f, 0x01]);
            }
            _ => {
                // With call data of two words: SELFDESTRUCT or REVERT.
                let end: &[u8] = if random.chance(60) { &[0x33, 0xff] } else { &[0x60, 0, 0x60, 0, 0xfd] };
                let target = code.len() + 6 + end.len();
                // PUSH1 64, CALLDATASIZE, LT, PUSH2 target, JUMPI.
                code.extend([0x60, 64, 0x36, 0x10, 0x61]);
                let target = u16::try_from(target + 2).unwrap_or_default().to_be_bytes();
                code.extend(target);
                code.push(0x57);
                code.extend(end);
                code.push(0x5b);
            }
        }
    }
    code.extend([0x60, 0, 0x52, 0x60, 32, 0x60, 0, 0xf3]);
    code
}

/// The key of a development account, which is public.
fn secret_key(accounts: &Accounts, address: Address) -> SecretKey {
    let revealed = accounts.reveal().into_iter().find(|account| account.address == address);
    let revealed = revealed.unwrap_or_else(|| panic!("{address} is not a development account"));
    let bytes: B256 = revealed.secret_key.parse().unwrap();
    SecretKey::from_byte_array(bytes.0).unwrap()
}
