//! Headers and bodies as they are stored, for peers.

use std::ops::ControlFlow;

use alloy_primitives::B256;
use tenon_api::StoreError;

use super::shared::Shared;
use crate::{
    database::cursor_status,
    error::corrupt,
    format::{bodies, columns::Column, keys, records},
};

impl Shared {
    /// Passes the RLP of the canonical headers from `first` to the head to `take`, until it returns
    /// [`ControlFlow::Break`].
    pub(crate) fn encoded_headers(
        &self,
        first: u64,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let start = keys::number(first);
        let (head, canonical) = self.generations.together(|| {
            let head = self.head.load().number().0;
            (head, self.database.range_cursor(Column::Canonical, &start, None))
        });
        let mut canonical = canonical?;
        // Created after the other cursor, so it has the header of each of that one's blocks.
        let mut headers = self.database.range_cursor(Column::Headers, &start, None)?;
        for number in first..=head {
            let missing = || corrupt(format!("header of canonical block {number}"));
            cursor_status(&canonical)?;
            let record = canonical.item().filter(|(key, _)| *key == keys::number(number)).map(|(_, record)| record);
            let (hash, _) = record.and_then(records::decode_canonical).ok_or_else(missing)?;
            let wanted = keys::block(number, hash);
            // Headers of other branches precede it.
            while headers.key().is_some_and(|key| *key < wanted[..]) {
                headers.next();
            }
            cursor_status(&headers)?;
            let record = headers.item().filter(|(key, _)| *key == wanted).map(|(_, record)| record);
            let (_, rlp) = record.and_then(records::decode_header).ok_or_else(missing)?;
            if take(rlp).is_break() {
                break;
            }
            canonical.next();
            headers.next();
        }
        Ok(())
    }

    /// Passes the RLP lists of transactions and uncles of these blocks to `take`, in parts, until it returns
    /// [`ControlFlow::Break`]. Unknown blocks are left out.
    pub(crate) fn encoded_bodies(
        &self,
        hashes: &[B256],
        take: &mut dyn FnMut(&[&[u8]]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let mut bodies = self.database.range_cursor(Column::Bodies, &[], None)?;
        let mut list_headers = Vec::new();
        for hash in hashes {
            // Peers mostly ask for consecutive blocks, which are stored next to each other.
            if !bodies.key().is_some_and(|key| key.ends_with(hash.as_slice())) {
                let Some(number) = self.number(*hash)? else { continue };
                bodies.seek(keys::block(number, *hash));
            }
            cursor_status(&bodies)?;
            // A block that was added after the cursor was created is left out.
            let Some((_, record)) = bodies.item().filter(|(key, _)| key.ends_with(hash.as_slice())) else { continue };
            let body = bodies::split_body(record).and_then(|body| body.lists_for_peers(&mut list_headers));
            let [transactions, uncles] = body.ok_or_else(|| corrupt(format!("body of block {hash}")))?;
            if take(&[&list_headers, transactions, uncles]).is_break() {
                break;
            }
            bodies.next();
        }
        Ok(())
    }
}
