//! A heavy chain of the Ethereum profile: every block full of transfers to accounts spread over the state, token
//! transfers, writes of five slots, and creations.

use std::{fs, io::Write, path::PathBuf, sync::Arc};

use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use clap::Args;
use secp256k1::{Message, SECP256K1, SecretKey};
use serde_json::{Map, Value, json};
use tenon_api::{RecoveredTransaction, SealAttributes, Transaction, TransactionPayload, TransactionSignature};
use tenon_chain::{encode_block, signing_hash, transaction_hash};
use tenon_native_spec::read_genesis;

use crate::{Outcome, chain::Chain, traffic_error};

const CHAIN_ID: u64 = 1337;
const GAS_PRICE: u64 = 100_000_000_000;
const SENDERS: usize = 200;
/// Of twenty transactions, the cumulative numbers of plain transfers, token transfers and writes; the rest are
/// creations.
const MIX: [usize; 3] = [8, 15, 19];
/// A contract whose runtime code sets five slots, starting at its first argument, to its second.
pub(crate) const WRITER: &str =
    "60203560003560000155602035600035600101556020356000356002015560203560003560030155602035600035600401550000";
pub(crate) const WRITER_ADDRESS: Address = Address::repeat_byte(0x51);
const TOKEN: &str = include_str!("../../../tests/data/contracts/Token.json");

/// Size of the chain.
#[derive(Args)]
pub(crate) struct Plan {
    /// Number of accounts in the state before the first block
    #[arg(long, default_value_t = 10_000)]
    accounts: u64,
    /// Number of full blocks
    #[arg(long, default_value_t = 500)]
    blocks: u64,
    /// Number of transactions in each block
    #[arg(long, default_value_t = 200)]
    transactions: usize,
    /// Folder to write to
    #[arg(long)]
    out: PathBuf,
}

/// A key with its address and next nonce.
pub(crate) struct Sender {
    key: SecretKey,
    chain_id: u64,
    pub(crate) address: Address,
    pub(crate) nonce: u64,
}

/// Pseudo-random numbers that are the same in every run (SplitMix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

pub(crate) fn make(plan: &Plan) -> Outcome<Value> {
    fs::create_dir_all(&plan.out)?;
    let mut senders = senders(CHAIN_ID)?;
    let text = genesis_text(plan.accounts, &senders)?;
    fs::write(plan.out.join("genesis.json"), &text)?;
    let folder = plan.out.join("making");
    let chain = Chain::create(&read_genesis(&text)?, &folder)?;
    let importer = chain.importer()?;
    let mut file = std::io::BufWriter::new(fs::File::create(plan.out.join("chain.rlp"))?);
    let mut head = chain.reader().head();
    let token = senders[0].address.create(0);
    let mut numbers = Numbers(plan.accounts);
    for number in 0..plan.blocks + 2 {
        let transactions = match number {
            0 => vec![deploy_token(&mut senders[0])?],
            1 => hand_out(&mut senders, token)?,
            _ => (0..plan.transactions)
                .map(|position| next_transaction(&mut senders, position, plan.accounts, token, &mut numbers))
                .collect::<Outcome<Vec<_>>>()?,
        };
        let wanted = transactions.len();
        let attributes = SealAttributes {
            timestamp: head.header.timestamp + 12,
            beneficiary: Address::repeat_byte(0xc0),
            gas_limit: head.header.gas_limit,
            extra_data: Bytes::new(),
            mix_hash: B256::repeat_byte(1),
        };
        let block = importer.produce(&attributes, transactions)?;
        if block.transactions.len() != wanted {
            return Err(traffic_error(number, block.transactions.len(), wanted));
        }
        file.write_all(&encode_block(&block))?;
        head = chain.reader().head();
    }
    file.flush()?;
    drop((importer, chain));
    fs::remove_dir_all(folder)?;
    Ok(json!({ "blocks": plan.blocks + 2, "head": head.header.hash(), "gas_of_last": head.header.gas_used }))
}

/// The accounts that send transactions on a chain.
pub(crate) fn senders(chain_id: u64) -> Outcome<Vec<Sender>> {
    (0..SENDERS)
        .map(|position| {
            let key = SecretKey::from_byte_array(keccak256(format!("sender {position}")).0)?;
            let public = key.public_key(SECP256K1).serialize_uncompressed();
            Ok(Sender { key, chain_id, address: Address::from_slice(&keccak256(&public[1..])[12..]), nonce: 0 })
        })
        .collect()
}

/// One of the accounts in the initial state.
pub(crate) fn resident(position: u64) -> Address {
    Address::from_slice(&keccak256(position.to_be_bytes())[12..])
}

fn genesis_text(accounts: u64, senders: &[Sender]) -> Outcome<Vec<u8>> {
    let mut alloc = Map::new();
    for position in 0..accounts {
        alloc.insert(resident(position).to_string(), json!({ "balance": "0xde0b6b3a7640000" }));
    }
    for sender in senders {
        alloc.insert(sender.address.to_string(), json!({ "balance": "0x200000000000000000000000000000000000000" }));
    }
    alloc.insert(WRITER_ADDRESS.to_string(), json!({ "balance": "0x0", "code": format!("0x{WRITER}") }));
    let genesis = json!({
        "config": {
            "chainId": CHAIN_ID, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
            "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0,
            "berlinBlock": 0, "londonBlock": 0, "terminalTotalDifficulty": 0, "shanghaiTime": 0, "cancunTime": 0,
        },
        "difficulty": "0x0", "gasLimit": "0x5f5e100", "baseFeePerGas": "0x3b9aca00", "timestamp": "0x60000000",
        "alloc": alloc,
    });
    Ok(serde_json::to_vec(&genesis)?)
}

fn next_transaction(
    senders: &mut [Sender],
    position: usize,
    accounts: u64,
    token: Address,
    numbers: &mut Numbers,
) -> Outcome<RecoveredTransaction> {
    let receiver = resident(numbers.next() % accounts.max(1));
    let kind = position % 20;
    let sender = &mut senders[position % SENDERS];
    if kind < MIX[0] {
        return sender.sign(Some(receiver), 1, Vec::new(), 21_000);
    }
    if kind < MIX[1] {
        return sender.sign(Some(token), 0, transfer_call(receiver, 1), 100_000);
    }
    let word = |number: u64| U256::from(number).to_be_bytes::<32>();
    if kind < MIX[2] {
        let input = [word(numbers.next()), word(numbers.next() | 1)].concat();
        return sender.sign(Some(WRITER_ADDRESS), 0, input, 200_000);
    }
    // PUSH32 code, MSTORE at 0, RETURN 32 bytes from there. The code begins with PUSH0 and is unique.
    let mut code = word(numbers.next());
    code[0] = 0x5f;
    let input = [&[0x7f][..], &code, &hex!("60005260206000f3")].concat();
    sender.sign(None, 0, input, 200_000)
}

fn deploy_token(sender: &mut Sender) -> Outcome<RecoveredTransaction> {
    let token: Value = serde_json::from_str(TOKEN)?;
    let mut input = hex::decode(token["bytecode"].as_str().ok_or("Token.json has no bytecode")?)?;
    input.extend_from_slice(&U256::MAX.to_be_bytes::<32>());
    sender.sign(None, 0, input, 3_000_000)
}

fn hand_out(senders: &mut [Sender], token: Address) -> Outcome<Vec<RecoveredTransaction>> {
    let receivers: Vec<Address> = senders.iter().skip(1).map(|sender| sender.address).collect();
    receivers
        .into_iter()
        .map(|receiver| senders[0].sign(Some(token), 0, transfer_call(receiver, 1_000_000_000), 100_000))
        .collect()
}

fn transfer_call(receiver: Address, amount: u64) -> Vec<u8> {
    [&hex!("a9059cbb")[..], receiver.into_word().as_slice(), &U256::from(amount).to_be_bytes::<32>()].concat()
}

impl Sender {
    pub(crate) fn sign(
        &mut self,
        to: Option<Address>,
        value: u64,
        input: Vec<u8>,
        gas_limit: u64,
    ) -> Outcome<RecoveredTransaction> {
        let mut transaction = Transaction {
            hash: B256::ZERO,
            chain_id: Some(self.chain_id),
            nonce: self.nonce,
            gas_limit,
            to,
            value: U256::from(value),
            input: input.into(),
            payload: TransactionPayload::Legacy { gas_price: U256::from(GAS_PRICE) },
            signature: TransactionSignature { v: 35 + 2 * self.chain_id, r: U256::ONE, s: U256::ONE },
        };
        self.nonce += 1;
        let message = Message::from_digest(signing_hash(&transaction).0);
        let (parity, bytes) = SECP256K1.sign_ecdsa_recoverable(message, &self.key).serialize_compact();
        transaction.signature = TransactionSignature {
            v: 35 + 2 * self.chain_id + u64::try_from(i32::from(parity))?,
            r: U256::from_be_slice(&bytes[..32]),
            s: U256::from_be_slice(&bytes[32..]),
        };
        transaction.hash = transaction_hash(&transaction);
        Ok(RecoveredTransaction { transaction: Arc::new(transaction), sender: self.address })
    }
}
