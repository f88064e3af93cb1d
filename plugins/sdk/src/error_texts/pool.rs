//! Refusals of the transaction pool. The texts start with the words that clients match (`docs/spec/rpc-eth.md` 12.3;
//! `docs/spec/chain.md` 9.2, 9.3 on native chains; current go-ethereum on the Ethereum profile).

use std::fmt::{self, Display, Formatter};

use crate::{Failure, shapes::spelled_address};
use alloy_primitives::{Address, U256, utils::format_ether};
use tenon_api::{
    DecodeProblem,
    messages::{BlobProblem, NativePoolRefusal, PoolRefusal, SenderProblem, Spelling},
};

use super::Refusal;

impl Refusal for PoolRefusal {
    fn into_failure(self) -> Failure {
        Failure::server(PoolText(&self).to_string())
    }
}

struct PoolText<'a>(&'a PoolRefusal);

impl Display for PoolText<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            PoolRefusal::Undecodable { what, offset, problem } => write_undecodable(out, what, *offset, *problem),
            PoolRefusal::AlreadyKnown => out.write_str("already known"),
            PoolRefusal::TypeNotActive(found) => {
                write!(out, "transaction type not supported: type {} rejected at the present fork", *found as u8)
            }
            PoolRefusal::Unprotected => out.write_str("only replay-protected (EIP-155) transactions allowed over RPC"),
            PoolRefusal::FeeCap { fee, cap } => write_fee_cap(out, *fee, *cap),
            PoolRefusal::Oversized { size, limit } => {
                write!(out, "oversized data: transaction size {size}, limit {limit}")
            }
            PoolRefusal::InitCodeTooLong { size, limit } => {
                write!(out, "max initcode size exceeded: code size {size}, limit {limit}")
            }
            PoolRefusal::GasLimitTooHigh { gas_limit, cap } => {
                write!(out, "transaction gas limit too high (cap: {cap}, tx: {gas_limit})")
            }
            PoolRefusal::ExceedsBlockGasLimit => out.write_str("exceeds block gas limit"),
            PoolRefusal::TipAboveFeeCap { tip, fee } => write!(
                out,
                "max priority fee per gas higher than max fee per gas (maxPriorityFeePerGas: {tip}, maxFeePerGas: {fee})"
            ),
            PoolRefusal::InvalidSender(problem) => {
                out.write_str("invalid sender: ")?;
                write_sender_problem(out, *problem)
            }
            PoolRefusal::NonceAtEnd => out.write_str("nonce has max value"),
            PoolRefusal::IntrinsicGas { gas_limit, needed } => {
                write!(out, "intrinsic gas too low: gas {gas_limit}, minimum needed {needed}")
            }
            PoolRefusal::FloorDataGas { gas_limit, needed } => {
                write!(out, "insufficient gas for floor data gas cost: gas {gas_limit}, minimum needed {needed}")
            }
            PoolRefusal::Underpriced { tip, needed } => {
                write!(out, "transaction underpriced: gas tip cap {tip}, minimum needed {needed}")
            }
            PoolRefusal::NoAuthorizations => out.write_str("set code tx must have at least one authorization tuple"),
            PoolRefusal::Blobs(problem) => write_blob_problem(out, problem),
            PoolRefusal::NonceTooLow { next, found } => {
                write!(out, "nonce too low: next nonce {next}, tx nonce {found}")
            }
            PoolRefusal::InsufficientFunds { balance, queued, cost } => {
                write_insufficient_funds(out, *balance, *queued, *cost)
            }
            PoolRefusal::ReplacementUnderpriced => out.write_str("replacement transaction underpriced"),
            PoolRefusal::DelegatedInFlight => {
                out.write_str("in-flight transaction limit reached for delegated accounts")
            }
            PoolRefusal::DelegatedGap => out.write_str("gapped-nonce tx from delegated accounts"),
            PoolRefusal::AccountLimit { sender, limit } => {
                write!(out, "account limit exceeded: sender {sender} has {limit} slots already")
            }
            PoolRefusal::Full => out.write_str("txpool is full"),
            PoolRefusal::DuplicatePrivileged => out.write_str("duplicate a special transaction"),
            PoolRefusal::Native(refusal) => write_native(out, *refusal),
        }
    }
}

fn write_fee_cap(out: &mut Formatter<'_>, fee: U256, cap: U256) -> fmt::Result {
    let (fee, cap) = (short_ether(fee), short_ether(cap));
    write!(out, "tx fee ({fee} ether) exceeds the configured cap ({cap} ether)")
}

fn write_insufficient_funds(out: &mut Formatter<'_>, balance: U256, queued: U256, cost: U256) -> fmt::Result {
    let overshot = queued.saturating_add(cost).saturating_sub(balance);
    write!(
        out,
        "insufficient funds for gas * price + value: balance {balance}, queued cost {queued}, tx cost {cost}, \
         overshot {overshot}"
    )
}

/// The text of Go's decoder, if it has one for the problem.
fn write_undecodable(out: &mut Formatter<'_>, what: &str, offset: usize, problem: DecodeProblem) -> fmt::Result {
    match problem {
        DecodeProblem::TypedTooShort => out.write_str("typed transaction too short"),
        DecodeProblem::UnsupportedType { .. } => out.write_str("transaction type not supported"),
        DecodeProblem::TooShort => out.write_str("rlp: value size exceeds available input length"),
        DecodeProblem::NotMinimal => out.write_str("rlp: non-canonical size information"),
        DecodeProblem::LeadingZero => write!(out, "rlp: non-canonical integer (leading zero bytes) for {what}"),
        DecodeProblem::UnexpectedList => write!(out, "rlp: expected input string or byte for {what}"),
        DecodeProblem::UnexpectedString => write!(out, "rlp: expected input list for {what}"),
        DecodeProblem::TooLarge => write!(out, "rlp: input string too long for {what}"),
        DecodeProblem::TrailingBytes { .. } => out.write_str("rlp: input contains more than one value"),
        DecodeProblem::WrongLength { .. }
        | DecodeProblem::WrongItemCount { .. }
        | DecodeProblem::OverBound { .. }
        | DecodeProblem::InvalidValue => write!(out, "rlp: {what} at byte {offset}: {problem}"),
    }
}

/// The text for a transaction without a valid sender.
pub(super) fn sender_problem_text(problem: SenderProblem) -> String {
    fmt::from_fn(|out| write_sender_problem(out, problem)).to_string()
}

fn write_sender_problem(out: &mut Formatter<'_>, problem: SenderProblem) -> fmt::Result {
    match problem {
        SenderProblem::InvalidSignature => out.write_str("invalid transaction v, r, s values"),
        SenderProblem::InvalidPublicKey => out.write_str("invalid public key"),
        SenderProblem::WrongChain { found, wanted } => {
            write!(out, "invalid chain id for signer: have {found} want {wanted}")
        }
        SenderProblem::UnsupportedType => out.write_str("transaction type not supported"),
    }
}

fn write_blob_problem(out: &mut Formatter<'_>, problem: &BlobProblem) -> fmt::Result {
    match problem {
        BlobProblem::None => out.write_str("blobless blob transaction"),
        BlobProblem::TooMany { found, limit } => {
            write!(out, "too many blobs in transaction: have {found}, permitted {limit}")
        }
        BlobProblem::Creation => out.write_str("blob transaction of type create"),
        BlobProblem::NoSidecar => out.write_str("missing sidecar in blob transaction"),
        BlobProblem::Version { found, wanted } => {
            write!(out, "unexpected sidecar version, want: {wanted}, got: {found}")
        }
        BlobProblem::Mismatch => out.write_str("sidecar does not match the blob hashes of the transaction"),
        BlobProblem::Proof => out.write_str("invalid blob proof"),
        BlobProblem::Underpriced { found, wanted } => {
            write!(out, "transaction underpriced: blob fee cap {found}, minimum needed {wanted}")
        }
    }
}

fn write_native(out: &mut Formatter<'_>, refusal: NativePoolRefusal) -> fmt::Result {
    out.write_str(match refusal {
        NativePoolRefusal::Type => "transaction type not supported",
        NativePoolRefusal::TypeBeforePrague => {
            "transaction type not supported: type 4 rejected, pool not yet in Prague"
        }
        NativePoolRefusal::NoAuthorizations => "EIP-7702 transaction with empty auth list",
        NativePoolRefusal::FloorGas { have, want } => {
            return write!(out, "insufficient gas for floor data gas cost: have {have}, want {want}");
        }
        NativePoolRefusal::Oversized => "oversized data",
        NativePoolRefusal::DeniedSender(sender) => {
            return write!(out, "reject transaction with sender in black-list: {}", native_address(sender));
        }
        NativePoolRefusal::DeniedReceiver(receiver) => {
            return write!(out, "reject transaction with receiver in black-list: {}", native_address(receiver));
        }
        NativePoolRefusal::BlockGasLimit => "exceeds block gas limit",
        NativePoolRefusal::TipAboveFeeCap => "max priority fee per gas higher than max fee per gas",
        NativePoolRefusal::Sender => "invalid sender",
        NativePoolRefusal::Underpriced => "transaction underpriced",
        NativePoolRefusal::NonceTooLow => "nonce too low",
        NativePoolRefusal::NonceTooHigh => "nonce too high",
        NativePoolRefusal::Funds => "insufficient funds for gas * price + value",
        NativePoolRefusal::IntrinsicGas => "intrinsic gas too low",
        NativePoolRefusal::ZeroGasPrice => "zero gas price",
        NativePoolRefusal::MinGasPrice => "under min gas price",
        NativePoolRefusal::SpecialByInterface => {
            "don't allow transaction sent to BlockSigners & RandomizeSMC smart contract via API"
        }
    })
}

/// Ether with two decimals, truncated.
fn short_ether(wei: U256) -> String {
    let text = format_ether(wei);
    let end = text.find('.').map_or(text.len(), |point| (point + 3).min(text.len()));
    text.get(..end).unwrap_or_default().to_owned()
}

/// An address as the reference prints it in texts.
pub(super) fn native_address(address: Address) -> String {
    spelled_address(Spelling::Reference, address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fees_are_shown_with_two_digits() {
        let fee = U256::from(1_239_000_000_000_000_000_u64);
        let cap = U256::from(1_000_000_000_000_000_000_u64);

        let failure = PoolRefusal::FeeCap { fee, cap }.into_failure();

        assert_eq!(failure, Failure::server("tx fee (1.23 ether) exceeds the configured cap (1.00 ether)"));
    }

    #[test]
    fn undecodable_bytes_have_the_text_of_gos_decoder_or_name_field_and_place() {
        let cases = [
            (DecodeProblem::LeadingZero, "rlp: non-canonical integer (leading zero bytes) for nonce"),
            (DecodeProblem::TrailingBytes { count: 2 }, "rlp: input contains more than one value"),
            (DecodeProblem::WrongLength { wanted: 20, found: 3 }, "rlp: nonce at byte 7: 3 bytes instead of 20"),
        ];
        for (problem, text) in cases {
            let refusal = PoolRefusal::Undecodable { what: "nonce".into(), offset: 7, problem };
            assert_eq!(refusal.into_failure().message, text);
        }
    }

    #[test]
    fn an_overdrawn_account_shows_what_is_missing() {
        let [balance, queued, cost] = [10, 7, 5].map(U256::from);

        let failure = PoolRefusal::InsufficientFunds { balance, queued, cost }.into_failure();

        let expected = "insufficient funds for gas * price + value: balance 10, queued cost 7, tx cost 5, overshot 2";
        assert_eq!(failure.message, expected);
    }

    #[test]
    fn a_denied_address_has_the_prefix_of_native_chains() {
        let failure = PoolRefusal::Native(NativePoolRefusal::DeniedSender(Address::ZERO)).into_failure();

        let zero = "xdc0000000000000000000000000000000000000000";
        assert_eq!(failure.message, format!("reject transaction with sender in black-list: {zero}"));
    }
}
