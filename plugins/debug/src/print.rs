//! A block as text, and the ethash seed: `docs/spec/rpc-node.md` 4.3. The text is for humans: its layout follows the
//! reference's, but its bytes need not.

use std::fmt::Write;

use tenon_sdk::prelude::*;

use crate::{DebugContext, Height};

/// Blocks of an ethash epoch.
const EPOCH_BLOCKS: u64 = 30_000;
/// Epochs beyond this have no seed here: computing it hashes once per epoch, and no block is that high.
const MAX_EPOCH: u64 = 100_000;

pub(crate) async fn seed_hash(context: DebugContext, number: Height) -> Result<B256, Failure> {
    let block = BlockId::number(number.0);
    let epoch = number.0 / EPOCH_BLOCKS;
    if epoch > MAX_EPOCH || context.call(GetHeader { block }).await?.is_none() {
        return Err(not_found(number));
    }
    Ok((0..epoch).fold(B256::ZERO, |seed, _| keccak256(seed)))
}

pub(crate) async fn print_block(context: DebugContext, number: Height) -> Result<String, Failure> {
    let stored = context.call(GetBlock { block: BlockId::number(number.0) }).await?;
    Ok(text(&stored.ok_or_else(|| not_found(number))?.block))
}

fn not_found(number: Height) -> Failure {
    Failure::server(format!("block #{} not found", number.0))
}

fn text(block: &RecoveredBlock) -> String {
    let mut text = format!("Block(#{}): Size: {} {{\n", block.number(), size(block.size));
    header_lines(&mut text, &block.header);
    text.push_str("Transactions:\n[");
    for (transaction, sender) in block.transactions.iter().zip(&block.senders) {
        transaction_lines(&mut text, transaction, *sender);
    }
    text.push_str("]\nUncles:\n[");
    for uncle in &block.ommers {
        line(&mut text, "Number:\t\t", uncle.number);
        line(&mut text, "ParentHash:\t", format_args!("{:x}", uncle.parent_hash));
    }
    text.push_str("]\n}\n");
    text
}

fn header_lines(text: &mut String, header: &SealedHeader) {
    // Writing to a string cannot fail, here and below.
    let _ = write!(text, "Header({:x}):\n[\n", header.hash());
    line(text, "ParentHash:\t", format_args!("{:x}", header.parent_hash));
    line(text, "UncleHash:\t", format_args!("{:x}", header.ommers_hash));
    line(text, "Coinbase:\t", format_args!("{:x}", header.beneficiary));
    line(text, "Root:\t\t", format_args!("{:x}", header.state_root));
    line(text, "TxSha\t\t", format_args!("{:x}", header.transactions_root));
    line(text, "ReceiptSha:\t", format_args!("{:x}", header.receipts_root));
    line(text, "Bloom:\t\t", format_args!("{:x}", header.logs_bloom));
    line(text, "Difficulty:\t", header.difficulty);
    line(text, "Number:\t\t", header.number);
    line(text, "GasLimit:\t", header.gas_limit);
    line(text, "GasUsed:\t", header.gas_used);
    line(text, "Time:\t\t", header.timestamp);
    line(text, "Extra:\t\t", String::from_utf8_lossy(&header.extra_data));
    line(text, "MixDigest:  ", format_args!("{:x}", header.mix_hash));
    line(text, "Nonce:\t\t", format_args!("{:x}", header.nonce));
    text.push_str("]\n");
}

fn transaction_lines(text: &mut String, transaction: &Transaction, sender: Address) {
    let _ = write!(text, "\n\tTX({:x})\n", transaction.hash);
    line(text, "Contract: ", transaction.to.is_none());
    line(text, "From:     ", format_args!("{sender:x}"));
    match transaction.to {
        Some(to) => line(text, "To:       ", format_args!("{to:x}")),
        None => line(text, "To:       ", "[contract creation]"),
    }
    line(text, "Nonce:    ", transaction.nonce);
    line(text, "GasPrice: ", format_args!("{:#x}", transaction.max_fee_per_gas()));
    line(text, "GasLimit  ", format_args!("{:#x}", transaction.gas_limit));
    line(text, "Value:    ", format_args!("{:#x}", transaction.value));
    line(text, "Data:     ", format_args!("{:x}", transaction.input));
    line(text, "V:        ", format_args!("{:#x}", transaction.signature.v));
    line(text, "R:        ", format_args!("{:#x}", transaction.signature.r));
    line(text, "S:        ", format_args!("{:#x}", transaction.signature.s));
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "\t{name}    {value}");
}

/// Bytes with a binary unit and two decimals.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 2] = [(1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(unit, _)| bytes > *unit);
    match unit {
        Some((unit, name)) => {
            let hundredths = bytes.saturating_mul(100) / unit;
            format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
        }
        None => format!("{bytes}.00 B"),
    }
}
