//! The `net` namespace (`docs/spec/rpc-eth.md` 16): the network's number and the state of the peer-to-peer side.
//!
//! It owns nothing. Invariant: it caches nothing, because the number of peers changes at any time.
//! It knows neither transports nor how peers are kept.

#![deny(unsafe_code)]

use tenon_sdk::prelude::*;

struct Net;

impl Plugin for Net {
    fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self)
    }
}

fn table() -> Table<Net> {
    Table::new("net", "1.0")
        .capabilities(&[Capability::ReadChain, Capability::ReadNode])
        .read("net_version", &[], "The network's number as a decimal string.", version)
        .read("net_listening", &[], "Always true, as with the reference client.", listening)
        .read("net_peerCount", &[], "Number of connected peers.", peer_count)
}

tenon_sdk::export!(Net, table);

async fn version(context: Context<Net>) -> Result<String, Failure> {
    Ok(context.call(GetChainInfo).await?.network_id.to_string())
}

/// `true` even without a listener, because clients treat `false` as a node that is down (`docs/spec/rpc-eth.md` 16).
async fn listening(_context: Context<Net>) -> Result<bool, Failure> {
    Ok(true)
}

async fn peer_count(context: Context<Net>) -> Result<Quantity, Failure> {
    Ok(Quantity(context.call(GetNetworkStatus).await?.peers))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tenon_sdk::testing::FakeHost;

    use super::*;

    #[test]
    fn answers_with_the_nodes_values() {
        let host = FakeHost::new()
            .answer(|_: GetChainInfo| {
                let (genesis_hash, profile) = (B256::ZERO, Profile::Ethereum);
                Ok(Arc::new(ChainInfo { chain_id: 50, network_id: 51, genesis_hash, profile }))
            })
            .answer(|_: GetNetworkStatus| Ok(NetworkStatus { is_listening: false, peers: 26 }));
        let (table, net) = (table(), Arc::new(Net));
        for (method, answer) in [("net_version", "\"51\""), ("net_listening", "true"), ("net_peerCount", "\"0x1a\"")] {
            assert_eq!(host.call_method(&table, &net, method, "[]").as_deref(), Ok(answer), "{method}");
        }
    }

    #[test]
    fn takes_no_arguments() {
        let refused = FakeHost::new().call_method(&table(), &Arc::new(Net), "net_version", "[1]");

        assert_eq!(refused, Err(Failure::invalid_params("too many arguments, want at most 0")));
    }
}
