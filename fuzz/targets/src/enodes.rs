//! Enode URLs, by which operators name peers.

use tenon_plugin_admin::fuzzing::canonical_enode;

/// What is understood is understood in the same way when it is written in full.
pub(crate) fn url(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match canonical_enode(text) {
        Ok(full) => assert_eq!(canonical_enode(&full).as_ref(), Ok(&full), "{text:?}"),
        Err(words) => assert!(!words.is_empty(), "{text:?}"),
    }
}

/// URLs of every kind, and keys alone.
pub(crate) fn urls() -> Vec<Vec<u8>> {
    let key = "1f".repeat(64);
    [
        format!("enode://{key}"),
        format!("enode://{key}@10.3.58.6:30303?discport=30301"),
        format!("enode://{key}@[2001:db8::1]:30303"),
        format!("ENODE://0x{key}@127.0.0.1:0"),
        key,
    ]
    .map(String::into_bytes)
    .to_vec()
}
