//! Signing of transactions (`docs/spec/device.md 6.7`, `6.8`).

use alloy_primitives::hex;
use tenon_device_framing::Message;
use tenon_proto::ethereum::{EthereumSignTx, EthereumTxAck, EthereumTxRequest};
use tenon_proto::later::EthereumSignTxEip1559;

use crate::Fault;
use crate::device::{Device, FlowResult, Stop, code};
use crate::keys::{Node, Signature};
use crate::model::Line;
use crate::prompts::button;
use crate::transaction::{Confirmed, SignatureForm, Signing, header, put_number, put_string};

/// Maximum number of data bytes in one message.
const MAX_CHUNK: usize = 1024;

/// Maximum length of the data, bytes.
const MAX_DATA: u32 = 16_000_000;

/// The largest chain id for which v fits into 32 bits.
const MAX_CHAIN_ID_IN_V: u64 = 2_147_483_629;

/// Maximum length of gas price and gas limit together, bytes.
const MAX_FEE_BYTES: usize = 30;

/// The order of the curve.
const CURVE_ORDER: [u8; 32] = hex!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");

/// Beginning of a token transfer call: the selector and the zeros before the recipient.
const TOKEN_TRANSFER: [u8; 16] = hex!("a9059cbb000000000000000000000000");

/// The part that both kinds of requests have.
struct CommonFields {
    to: Vec<u8>,
    is_token_transfer: bool,
    has_data: bool,
}

impl Device {
    pub(crate) async fn sign_transaction(&mut self, message: &Message) -> FlowResult<()> {
        let request: EthereumSignTx = self.read(message)?;
        self.signing = None;
        let node = self.key(&request.address_n).await?;
        let chain_id = self.check_legacy(&request)?;
        let fees = [request.gas_price.as_deref(), request.gas_limit.as_deref()];
        let (length, chunk) = (request.data_length(), request.data_initial_chunk());
        let shown = self.check_common(request.to(), fees, request.value(), length, chunk)?;
        self.confirm_transaction(&shown).await?;

        let mut before_data = Vec::new();
        if let Some(tx_type) = request.tx_type {
            put_number(&mut before_data, u64::from(tx_type));
        }
        for member in [request.nonce(), request.gas_price(), request.gas_limit(), &shown.to, request.value()] {
            put_string(&mut before_data, member);
        }
        let mut after_data = Vec::new();
        if let Some(chain_id) = chain_id {
            put_number(&mut after_data, chain_id);
            put_string(&mut after_data, &[]);
            put_string(&mut after_data, &[]);
        }
        let signature_form = match chain_id {
            None => SignatureForm::Unprotected,
            Some(chain_id) if chain_id <= MAX_CHAIN_ID_IN_V => SignatureForm::Chain(chain_id),
            Some(_) => SignatureForm::Bit,
        };
        let transaction = Confirmed { envelope: None, before_data, after_data, signature_form };
        self.begin_signing(node, transaction, chunk, length).await
    }

    pub(crate) async fn sign_fee_market_transaction(&mut self, message: &Message) -> FlowResult<()> {
        let request: EthereumSignTxEip1559 = self.read(message)?;
        self.signing = None;
        let node = self.key(&request.address_n).await?;
        let fees = [request.max_gas_fee.as_deref(), request.gas_limit.as_deref()];
        let (length, chunk) = (request.data_length(), request.data_initial_chunk());
        let shown = self.check_common(request.to(), fees, request.value(), length, chunk)?;
        if request.chain_id() == 0 {
            return Err(Stop::Failure(code::DATA_ERROR, "Chain ID out of bounds"));
        }
        let access_list = access_list(&request)?;
        self.confirm_transaction(&shown).await?;

        let mut before_data = Vec::new();
        put_number(&mut before_data, request.chain_id());
        let fees = [request.nonce(), request.max_priority_fee(), request.max_gas_fee(), request.gas_limit()];
        for member in fees.into_iter().chain([shown.to.as_slice(), request.value()]) {
            put_string(&mut before_data, member);
        }
        let signature_form = SignatureForm::Bit;
        let transaction = Confirmed { envelope: Some(2), before_data, after_data: access_list, signature_form };
        self.begin_signing(node, transaction, chunk, length).await
    }

    /// The chain id to sign, if there is one.
    fn check_legacy(&self, request: &EthereumSignTx) -> FlowResult<Option<u64>> {
        let wrong_chain = Stop::Failure(code::DATA_ERROR, "Chain Id out of bounds");
        if self.model.has_recent_firmware() && request.chain_id.is_none_or(|id| id == 0) {
            return Err(wrong_chain);
        }
        let chain_id = match (request.chain_id, self.line) {
            (Some(0), Line::One) => return Err(wrong_chain),
            (Some(0), Line::T) => None,
            (Some(id), _) if !self.model.has_recent_firmware() && id > u64::from(u32::MAX) => {
                return Err(Stop::Failure(code::DATA_ERROR, "end-of-stream"));
            }
            (chain_id, _) => chain_id,
        };
        if request.tx_type.is_some_and(|kind| kind != 1 && kind != 6) {
            let text = self.by_line("Txtype out of bounds", "tx_type out of bounds");
            return Err(Stop::Failure(code::DATA_ERROR, text));
        }
        Ok(chain_id)
    }

    fn check_common(
        &self,
        to: &str,
        fees: [Option<&[u8]>; 2],
        value: &[u8],
        length: u32,
        chunk: &[u8],
    ) -> FlowResult<CommonFields> {
        let refuse = |text| Err(Stop::Failure(code::DATA_ERROR, text));
        if length > 0 && chunk.is_empty() {
            return refuse("Data length provided, but no initial chunk");
        }
        if length > MAX_DATA {
            return refuse("Data length exceeds limit");
        }
        if chunk.len() > length as usize && (length > 0 || self.line == Line::One) {
            return refuse("Invalid size of initial chunk");
        }
        let [Some(price), Some(limit)] = fees else { return refuse("Safety check failed") };
        if price.len() + limit.len() > MAX_FEE_BYTES || !matches!(to.len(), 0 | 40 | 42) {
            return refuse("Safety check failed");
        }
        if to.is_empty() && length == 0 {
            return refuse("Safety check failed");
        }
        let to = match (self.line, recipient(to)) {
            (_, Some(to)) => to,
            (Line::T, None) => return Err(Stop::Failure(code::FIRMWARE_ERROR, "Firmware error")),
            (Line::One, None) if length == 0 => return refuse("Safety check failed"),
            // As measured, Model One treats it as the creation of a contract. Hosts must therefore check the recipient
            // themselves.
            (Line::One, None) => Vec::new(),
        };
        let is_token_transfer =
            value.is_empty() && length == 68 && chunk.len() == 68 && chunk.starts_with(&TOKEN_TRANSFER);
        Ok(CommonFields { to, is_token_transfer, has_data: length > 0 })
    }

    /// Asks for confirmation of recipient and amount, of data that is not a token transfer, and of the fee.
    async fn confirm_transaction(&mut self, shown: &CommonFields) -> FlowResult<()> {
        let screens = if shown.has_data && !shown.is_token_transfer { 3 } else { 2 };
        for _ in 0..screens {
            self.confirm(button::SIGN_TX).await?;
        }
        Ok(())
    }

    async fn begin_signing(&mut self, node: Node, transaction: Confirmed, chunk: &[u8], length: u32) -> FlowResult<()> {
        let data_length = length as usize;
        let data = if data_length == 0 { Vec::new() } else { chunk.to_vec() };
        self.ask_or_sign(Signing { node, transaction, data, data_length }).await;
        Ok(())
    }

    pub(crate) async fn go_on_signing(&mut self, message: &Message) -> FlowResult<()> {
        let Some(mut signing) = self.signing.take() else {
            let text = self.by_line("Not in Ethereum signing mode", "Unexpected message");
            return Err(Stop::Failure(code::UNEXPECTED_MESSAGE, text));
        };
        let answer: EthereumTxAck = self.read_answer(message)?;
        let chunk = answer.data_chunk();
        let missing = signing.data_length.saturating_sub(signing.data.len());
        match self.line {
            Line::One if chunk.is_empty() => {
                return Err(Stop::Failure(code::DATA_ERROR, "Empty data chunk received"));
            }
            Line::One if chunk.len() > missing => return Err(Stop::Failure(code::DATA_ERROR, "Too much data")),
            Line::T if chunk.is_empty() => return Err(Stop::Failure(code::FIRMWARE_ERROR, "Firmware error")),
            Line::One | Line::T => {}
        }
        signing.data.extend_from_slice(chunk);
        self.ask_or_sign(signing).await;
        Ok(())
    }

    /// Requests the next part of the data, or signs if it is complete.
    async fn ask_or_sign(&mut self, signing: Signing) {
        let missing = signing.data_length.saturating_sub(signing.data.len());
        if missing > 0 {
            let wanted = match self.shared.next_fault() {
                Some(Fault::TooMuchData) => missing + 1,
                Some(Fault::NoData) => 0,
                _ => missing.min(MAX_CHUNK),
            };
            self.signing = Some(signing);
            self.send(&EthereumTxRequest { data_length: Some(wanted as u32), ..Default::default() }).await;
            return;
        }
        let signature = self.make_signature(&signing.node, signing.hash());
        let bit = u64::from(signature.recovery_bit);
        let v = match signing.transaction.signature_form {
            SignatureForm::Unprotected => 27 + bit,
            SignatureForm::Chain(chain_id) => 35 + 2 * chain_id + bit,
            SignatureForm::Bit => bit,
        };
        let answer = EthereumTxRequest {
            data_length: None,
            // Fits: for larger chain ids, v is only the bit.
            signature_v: Some(v as u32),
            signature_r: Some(signature.r.to_vec()),
            signature_s: Some(signature.s.to_vec()),
        };
        self.send(&answer).await;
    }

    /// Signs a confirmed hash, with the planned fault if it is due.
    pub(crate) fn make_signature(&self, node: &Node, mut hash: [u8; 32]) -> Signature {
        self.shared.observe(|observed| observed.signatures += 1);
        let fault = self.shared.next_fault();
        if fault == Some(Fault::WrongSignature) {
            hash[0] ^= 1;
        }
        let mut signature = node.sign(hash);
        if fault == Some(Fault::HighSignature) {
            signature.s = subtract(&CURVE_ORDER, &signature.s);
            signature.recovery_bit ^= 1;
        }
        signature
    }
}

/// Parses a recipient: 40 digits, with or without `0x`.
fn recipient(to: &str) -> Option<Vec<u8>> {
    let digits = match to.len() {
        42 => to.strip_prefix("0x").or_else(|| to.strip_prefix("0X"))?,
        _ => to,
    };
    hex::decode(digits).ok().filter(|_| !digits.starts_with("0x"))
}

fn access_list(request: &EthereumSignTxEip1559) -> FlowResult<Vec<u8>> {
    let mut entries = Vec::new();
    for entry in &request.access_list {
        let malformed = Stop::Failure(code::DATA_ERROR, "Safety check failed");
        let Some(address) = recipient(entry.address()).filter(|address| address.len() == 20) else {
            return Err(malformed);
        };
        let mut keys = Vec::new();
        entry.storage_keys.iter().for_each(|key| put_string(&mut keys, key));
        let mut members = Vec::new();
        put_string(&mut members, &address);
        members.extend(header(0xc0, keys.len()));
        members.extend(keys);
        entries.extend(header(0xc0, members.len()));
        entries.extend(members);
    }
    Ok([header(0xc0, entries.len()), entries].concat())
}

fn subtract(from: &[u8; 32], what: &[u8; 32]) -> [u8; 32] {
    let mut result = [0; 32];
    let mut borrow = 0;
    for at in (0..32).rev() {
        let difference = i16::from(from[at]) - i16::from(what[at]) - borrow;
        borrow = i16::from(difference < 0);
        result[at] = difference.rem_euclid(256) as u8;
    }
    result
}
