//! The `web3` namespace (`docs/spec/rpc-eth.md` 16): the node's name and a hash function.
//!
//! It owns nothing. Invariant: no answer depends on the chain, so both methods work on a node without blocks or peers.

#![deny(unsafe_code)]

use tenon_sdk::prelude::*;

struct Web3;

impl Plugin for Web3 {
    fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self)
    }
}

fn table() -> Table<Web3> {
    Table::new("web3", "1.0")
        .capabilities(&[Capability::ReadNode])
        .read("web3_clientVersion", &[], "Name, version and build of the node.", client_version)
        .read("web3_sha3", &["data"], "Keccak-256 of the data.", sha3)
}

tenon_sdk::export!(Web3, table);

async fn client_version(context: Context<Web3>) -> Result<String, Failure> {
    context.call(GetClientVersion).await
}

async fn sha3(_context: Context<Web3>, data: Bytes) -> Result<B256, Failure> {
    Ok(keccak256(data))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tenon_sdk::testing::FakeHost;

    use super::*;

    #[test]
    fn gives_the_version_of_the_node() {
        let host = FakeHost::new().answer(|_: GetClientVersion| Ok("Tenon/v0.1.0".to_owned()));

        assert_eq!(
            host.call_method(&table(), &Arc::new(Web3), "web3_clientVersion", ""),
            Ok("\"Tenon/v0.1.0\"".to_owned())
        );
    }

    #[test]
    fn hashes_data_of_either_prefix() {
        let (host, table, web3) = (FakeHost::new(), table(), Arc::new(Web3));
        let empty = "\"0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470\"";
        let hello = "\"0x47173285a8d7341e5e972fc677286384f802f8ef42a5ec5f03bbfa254cb01fad\"";
        for (data, hash) in [
            ("\"0x\"", empty),
            ("\"\"", empty),
            ("\"0x68656c6c6f20776f726c64\"", hello),
            ("\"xdc68656c6c6f20776f726c64\"", hello),
        ] {
            assert_eq!(
                host.call_method(&table, &web3, "web3_sha3", &format!("[{data}]")).as_deref(),
                Ok(hash),
                "{data}"
            );
        }
    }
}
