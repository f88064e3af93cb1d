//! Keys of the reference's database (v2.7.0 `core/rawdb/schema.go`).

use tenon_api::B256;

/// Key of the head block's hash.
pub(crate) const HEAD_BLOCK: &[u8] = b"LastBlock";

/// First byte of the keys of headers, canonical hashes and total difficulties: `h ‖ height ‖ …`.
pub(crate) const HEADER: u8 = b'h';
/// First byte of the keys of bodies: `b ‖ height ‖ hash`.
pub(crate) const BODY: u8 = b'b';
/// First byte of the keys of heights by hash: `H ‖ hash`.
const NUMBER: u8 = b'H';
/// Last byte of a canonical hash's key: `h ‖ height ‖ n`.
const CANONICAL: u8 = b'n';

/// Start of all keys of a height.
pub(crate) fn of_height(table: u8, number: u64) -> Vec<u8> {
    let mut key = vec![table];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Key of a header or body.
pub(crate) fn of_block(table: u8, number: u64, hash: B256) -> Vec<u8> {
    let mut key = of_height(table, number);
    key.extend_from_slice(hash.as_slice());
    key
}

/// Key of the canonical hash of a height.
pub(crate) fn canonical(number: u64) -> Vec<u8> {
    let mut key = of_height(HEADER, number);
    key.push(CANONICAL);
    key
}

/// Key of a block's height.
pub(crate) fn number(hash: B256) -> Vec<u8> {
    let mut key = vec![NUMBER];
    key.extend_from_slice(hash.as_slice());
    key
}
