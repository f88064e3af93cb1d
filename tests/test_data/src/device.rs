//! Signatures measured on hardware wallets (`tests/data/device`).

use serde::Deserialize;

/// A transaction and its signature, as the device gives it.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub struct MeasuredTransaction {
    pub name: String,
    pub chain_id: Option<u64>,
    pub nonce: u64,
    pub gas_price: u64,
    pub gas_limit: u64,
    pub to: Option<String>,
    pub value: u64,
    /// Texts, and how often each is repeated.
    data: Vec<(String, usize)>,
    pub tx_type: Option<u32>,
    pub v: u32,
    pub r: String,
    pub s: String,
}

impl Default for MeasuredTransaction {
    fn default() -> Self {
        Self {
            name: String::new(),
            chain_id: None,
            nonce: 0,
            gas_price: 20,
            gas_limit: 20,
            to: Some("0x1d1c328764a41bda0492b66baa30c4a339ff85ef".into()),
            value: 10,
            data: Vec::new(),
            tx_type: None,
            v: 0,
            r: String::new(),
            s: String::new(),
        }
    }
}

impl MeasuredTransaction {
    pub fn data(&self) -> Vec<u8> {
        self.data.iter().map(|(text, times)| text.repeat(*times)).collect::<String>().into_bytes()
    }
}

/// A message and its signature.
#[derive(Debug, Deserialize)]
pub struct MeasuredMessage {
    pub message: String,
    pub signature: String,
}

#[derive(Debug, Deserialize)]
pub struct Measured {
    pub transactions: Vec<MeasuredTransaction>,
    pub messages: Vec<MeasuredMessage>,
}

pub fn measured() -> Measured {
    crate::json("device/vectors.json")
}
