//! Requests and their expected answers.

use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};
use serde_json::{Value, json};

use crate::modules;

/// A request with its expected answer.
pub(crate) struct TestRequest {
    /// Index of its module.
    pub(crate) module: usize,
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    pub(crate) expected: Expected,
}

/// The expected answer.
pub(crate) enum Expected {
    /// Exactly this.
    Exactly(Value),
    /// An object or text that contains this text.
    Containing(&'static str),
    /// A height, not below the last one of the same connection.
    Height,
    /// A number returned only once.
    Unique,
}

/// An account without funds.
const UNFUNDED: &str = "0x00000000000000000000000000000000deadbeef";

/// Requests of each connection, by weight.
const MIX: [(&str, u32); 15] = [
    ("eth_blockNumber", 6),
    ("eth_chainId", 4),
    ("eth_getBalance", 6),
    ("eth_getBlockByNumber", 3),
    ("eth_call", 2),
    ("web3_sha3", 4),
    ("web3_clientVersion", 3),
    ("rpc_modules", 3),
    ("txpool_status", 3),
    ("counter_next", 5),
    ("net_version", 6),
    ("net_peerCount", 3),
    ("debug_getRawHeader", 3),
    ("hello_greet", 5),
    ("bad_echo", 4),
];

/// A random request.
pub(crate) fn at_random(random: &mut StdRng) -> TestRequest {
    let method = MIX.choose_weighted(random, |(_, weight)| *weight).map_or("eth_chainId", |(method, _)| *method);
    let mut word = || format!("{:016x}", random.random::<u64>());
    let (params, expected) = match method {
        "eth_blockNumber" => (json!([]), Expected::Height),
        "eth_getBalance" => (json!([UNFUNDED, "latest"]), Expected::Exactly(json!("0x0"))),
        "eth_getBlockByNumber" => (json!(["0x0", false]), Expected::Containing("\"number\":\"0x0\"")),
        "eth_call" => (json!([{"to": UNFUNDED}, "latest"]), Expected::Exactly(json!("0x"))),
        "web3_sha3" => {
            let hash = "0x47173285a8d7341e5e972fc677286384f802f8ef42a5ec5f03bbfa254cb01fad";
            (json!(["0x68656c6c6f20776f726c64"]), Expected::Exactly(json!(hash)))
        }
        "web3_clientVersion" => (json!([]), Expected::Containing("Tenon")),
        "rpc_modules" => (json!([]), Expected::Containing("\"eth\":\"1.0\"")),
        "txpool_status" => (json!([]), Expected::Containing("\"pending\"")),
        "counter_next" => (json!([]), Expected::Unique),
        "net_version" => (json!([]), Expected::Exactly(json!("31337"))),
        "net_peerCount" => (json!([]), Expected::Exactly(json!("0x0"))),
        "debug_getRawHeader" => (json!(["0x0"]), Expected::Containing("0xf9")),
        "hello_greet" => {
            let name = word();
            (json!([name]), Expected::Exactly(json!(format!("hello {name}"))))
        }
        "bad_echo" => {
            let text = word();
            (json!([text]), Expected::Exactly(json!(text)))
        }
        _ => (json!([]), Expected::Exactly(json!("0x7a69"))),
    };
    let namespace = method.split('_').next().unwrap_or_default();
    TestRequest { module: modules::index(namespace).unwrap_or_default(), method, params, expected }
}

/// The number after `0x`.
pub(crate) fn quantity(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn every_method_belongs_to_a_module_of_the_run() {
        for (method, _) in MIX {
            assert!(modules::index(method.split('_').next().unwrap_or_default()).is_some(), "{method}");
        }
    }

    #[test]
    fn a_seed_repeats_the_same_requests() {
        let asked = |seed| {
            let mut random = StdRng::seed_from_u64(seed);
            (0..100).map(|_| at_random(&mut random)).map(|asked| (asked.method, asked.params)).collect::<Vec<_>>()
        };

        assert_eq!(asked(7), asked(7));
        assert_ne!(asked(7), asked(8));
    }
}
