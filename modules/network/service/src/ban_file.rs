//! The file of bans. Each line is `<until> <length> node <identifier>` or `<until> <length> address <address>`; `until`
//! is in Unix seconds, `length` in seconds.

use tenon_network_peers::StoredBan;

/// Maximum size of the file in bytes; the rest is not read.
pub(crate) const MAX_BAN_FILE_BYTES: usize = 2 << 20;

/// The file's text.
pub(crate) fn write_bans(bans: &[StoredBan]) -> String {
    let mut text = String::new();
    for ban in bans {
        let times = format!("{} {}", ban.until, ban.length);
        if let Some(node) = ban.node {
            text.push_str(&format!("{times} node {node}\n"));
        }
        if let Some(address) = ban.address {
            text.push_str(&format!("{times} address {address}\n"));
        }
    }
    text
}

/// Reads the file. Skips malformed lines and expired bans.
pub(crate) fn read_bans(text: &str, unix_now: u64) -> Vec<StoredBan> {
    let ban = |line: &str| {
        let mut words = line.split(' ');
        let (until, length) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (kind, value) = (words.next()?, words.next()?);
        let empty = StoredBan { node: None, address: None, until, length };
        let ban = match kind {
            "node" => StoredBan { node: Some(value.parse().ok()?), ..empty },
            "address" => StoredBan { address: Some(value.parse().ok()?), ..empty },
            _ => return None,
        };
        (until > unix_now).then_some(ban)
    };
    let end = text.len().min(MAX_BAN_FILE_BYTES);
    text.get(..end).unwrap_or_default().lines().filter_map(ban).collect()
}

#[cfg(test)]
mod tests {
    use tenon_network_identity::NodeId;

    use super::*;

    #[test]
    fn bans_are_written_and_read_and_wrong_or_past_lines_left_out() {
        let node = StoredBan { node: Some(NodeId([7; 64])), address: None, until: 2000, length: 600 };
        let address = StoredBan { node: None, address: Some([10, 0, 0, 1].into()), until: 3000, length: 1200 };
        let past = StoredBan { until: 1000, ..address };
        let text = format!("{}x\n1 2 node\n9 9 node zz\n2001 1 host a\n\n", write_bans(&[node, address, past]));

        assert_eq!(read_bans(&text, 1000), [node, address]);
    }
}
