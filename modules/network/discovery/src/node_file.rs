//! The file of nodes that have answered, which the next start contacts first (`docs/spec/p2p.md` 4.5). Each line
//! contains the Unix second of the last Pong and the enode URL.

use tenon_network_identity::{Endpoint, Enode, NodeId};

/// Maximum size of the file in bytes. The rest is not read.
pub const MAX_NODE_FILE_BYTES: usize = 4 << 20;
/// Maximum age in seconds of a node's last Pong for the node to be contacted again.
const MAX_SEED_AGE: u64 = 5 * 24 * 3600;

/// A node that has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownNode {
    /// The node.
    pub id: NodeId,
    /// The address at which it answered.
    pub endpoint: Endpoint,
    /// Unix second of its last Pong.
    pub last_pong: u64,
}

/// Encodes the file's text.
pub fn write_nodes(nodes: &[KnownNode]) -> String {
    let line =
        |node: &KnownNode| format!("{} {}\n", node.last_pong, Enode { id: node.id, endpoint: Some(node.endpoint) });
    nodes.iter().map(line).collect()
}

/// Parses the file. Lines that are malformed, unusable or too old are skipped.
pub fn read_nodes(text: &str, unix_now: u64) -> Vec<KnownNode> {
    let end = text.len().min(MAX_NODE_FILE_BYTES);
    let text = text.get(..end).unwrap_or_default();
    let node = |line: &str| {
        let (time, url) = line.split_once(' ')?;
        let enode: Enode = url.parse().ok()?;
        let (endpoint, last_pong) = (enode.usable().ok()?, time.parse().ok()?);
        let is_young = unix_now.saturating_sub(last_pong) < MAX_SEED_AGE;
        is_young.then_some(KnownNode { id: enode.id, endpoint, last_pong })
    };
    text.lines().filter_map(node).collect()
}

#[cfg(test)]
mod tests {
    use tenon_network_identity::NodeKey;

    use super::*;

    #[test]
    fn nodes_round_trip_and_invalid_or_old_lines_are_skipped() {
        let known = |port, last_pong| KnownNode {
            id: NodeKey::random().unwrap().id(),
            endpoint: Endpoint { ip: [1, 2, 3, 4].into(), udp: port, tcp: 30303 },
            last_pong,
        };
        let nodes = [known(30303, 1_000_000), known(4, 1_000_000 - MAX_SEED_AGE), known(5, 2_000_000)];
        let text = format!("{}x y\n\n7\n12 enode://00@1.2.3.4:5\n", write_nodes(&nodes));

        assert_eq!(read_nodes(&text, 1_000_000), [nodes[0], nodes[2]]);
    }
}
