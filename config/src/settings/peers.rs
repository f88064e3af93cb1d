//! The peer-to-peer network.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use crate::table::section;
use crate::value::ByteSize;

section! {
    "Peers";
    /// The peer-to-peer network, for native chains only: this node follows the chain of its peers and serves them.
    PeerSettings {
        /// Connect to peers and accept connections from them. While the node runs: `tenon module enable network`.
        enabled: bool = false, "p2p.enabled", "p2p";
        /// Address to listen on, for connections (TCP) and discovery (UDP).
        addr: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED), "p2p.addr", "p2p.addr";
        /// Port for both; 0 chooses a free one.
        port: u16 = 30303, "p2p.port", "port";
        /// Maximum number of peers. One slot in three is for peers that this node dials; 0 leaves the network off.
        maxpeers: u32 = 50, "p2p.maxpeers", "maxpeers";
        /// Maximum number of concurrent handshakes with peers; 0 means 50. One address may use a fifth of them.
        maxpendpeers: u32 = 0, "p2p.maxpendpeers", "maxpendpeers";
        /// enode URLs where discovery starts, instead of the network's own.
        bootnodes: Vec<String> = Vec::new(), "p2p.bootnodes", "bootnodes", old "bootnodesv4";
        /// Turn discovery off: only the nodes of `p2p.static` are dialed, and the UDP port is not opened.
        nodiscover: bool = false, "p2p.nodiscover", "nodiscover";
        /// enode URLs of nodes to stay connected with.
        statics: Vec<String> = Vec::new(), "p2p.static", "p2p.static";
        /// enode URLs of nodes that are exempt from the limits on peers.
        trusted: Vec<String> = Vec::new(), "p2p.trusted", "p2p.trusted";
        /// Networks (`10.0.0.0/8`): nothing is exchanged with addresses outside them.
        netrestrict: Vec<String> = Vec::new(), "p2p.netrestrict", "netrestrict";
        /// Maximum bytes per second received from all peers together; 0 means no limit. Each of these four limits must be
        /// at least 128 KiB.
        download_limit: ByteSize = ByteSize(0), "p2p.download-limit", "p2p.download-limit";
        /// Maximum bytes per second sent to all peers together; 0 means no limit. Votes and blocks are sent first, then
        /// answers, then transactions.
        upload_limit: ByteSize = ByteSize(0), "p2p.upload-limit", "p2p.upload-limit";
        /// Maximum bytes per second received from each peer; 0 means no limit.
        peer_download_limit: ByteSize = ByteSize(0), "p2p.peer-download-limit", "p2p.peer-download-limit";
        /// Maximum bytes per second sent to each peer; 0 means no limit.
        peer_upload_limit: ByteSize = ByteSize(0), "p2p.peer-upload-limit", "p2p.peer-upload-limit";
        /// `none`; `extip:ADDRESS`, the address at which others reach this node; or a method to map the port in the router
        /// and to learn the address: `upnp`, `natpmp` (also PCP; `natpmp:ROUTER` names the router), `any`. The reference
        /// client's default is `any`.
        nat: String = "none".to_owned(), "p2p.nat", "nat";
        /// File with the node key: 64 hexadecimal digits, readable by its owner only. Without it: `network/nodekey` in the
        /// data folder, created at the first start.
        nodekey: Option<PathBuf> = None, "p2p.nodekey", "nodekey";
    }
}
