//! What the generator makes from `definitions/*.proto`; a module for each file.
//!
//! Do not edit the files beside this one: `TENON_WRITE_PAGES=1 cargo test -p tenon-proto --test generated`.

#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated; the definitions explain it")]

include!("tenon.device.rs");
include!("registry.rs");

/// Declares a module for each file of bodies.
macro_rules! bodies {
    ($($name:ident $file:literal $about:literal,)*) => {
        $(#[doc = $about] pub mod $name { include!($file); })*
    };
}

bodies! {
    binance "tenon.device.binance.rs" "Family F12: Binance Chain.",
    bitcoin "tenon.device.bitcoin.rs" "The unspent-output chain group.",
    bootloader "tenon.device.bootloader.rs" "What only the bootloader handles.",
    cardano "tenon.device.cardano.rs" "Family F7: Cardano.",
    common "tenon.device.common.rs" "Success, failure, and the questions that interrupt an exchange.",
    crypto "tenon.device.crypto.rs" "Encryption of values, identities, collective signing.",
    debug "tenon.device.debug.rs" "The debug link of debug builds.",
    eos "tenon.device.eos.rs" "Family F11: EOS.",
    ethereum "tenon.device.ethereum.rs" "Family F1: Ethereum.",
    later "tenon.device.later.rs" "Messages that are younger than the registry.",
    lisk "tenon.device.lisk.rs" "Family F3: Lisk.",
    management "tenon.device.management.rs" "The device itself: what it is, its settings, its set-up.",
    monero "tenon.device.monero.rs" "Family F10: Monero.",
    nem "tenon.device.nem.rs" "Family F2: NEM.",
    ontology "tenon.device.ontology.rs" "Family F8: Ontology.",
    ripple "tenon.device.ripple.rs" "Family F9: Ripple.",
    stellar "tenon.device.stellar.rs" "Family F5: Stellar.",
    tezos "tenon.device.tezos.rs" "Family F4: Tezos.",
    tron "tenon.device.tron.rs" "Family F6: Tron.",
}
