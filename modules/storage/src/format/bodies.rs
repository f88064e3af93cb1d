//! Encoding of the bodies of blocks. As in [`records`](super::records), decoders return `None` for other bytes.

use alloy_primitives::Address;

use super::records::{Input, put_number};

/// Senders, and the part of the block's RLP list after its header. The header is stored once, in its own column.
pub(crate) fn encode_body(senders: &[Address], block_rlp: &[u8]) -> Option<Vec<u8>> {
    let (_, after_header) = split_block(block_rlp)?;
    let mut record = Vec::with_capacity(10 + 20 * senders.len() + after_header.len());
    put_number(&mut record, senders.len() as u64);
    for sender in senders {
        record.extend_from_slice(sender.as_slice());
    }
    record.extend_from_slice(after_header);
    Some(record)
}

/// Senders, and the reassembled RLP of the block.
pub(crate) fn decode_body(header_rlp: &[u8], record: &[u8]) -> Option<(Vec<Address>, Vec<u8>)> {
    let mut input = Input(record);
    let count = input.count()?;
    let senders = (0..count).map(|_| input.address()).collect::<Option<Vec<_>>>()?;
    let payload_length = header_rlp.len() + input.0.len();
    let mut block_rlp = Vec::with_capacity(payload_length + 9);
    alloy_rlp::Header { list: true, payload_length }.encode(&mut block_rlp);
    block_rlp.extend_from_slice(header_rlp);
    block_rlp.extend_from_slice(input.0);
    Some((senders, block_rlp))
}

/// A stored body, split without decoding its transactions.
pub(crate) struct Body<'a> {
    /// Concatenated addresses.
    senders: &'a [u8],
    /// The items of the list of transactions.
    transactions: &'a [u8],
    /// The items after that list: uncles, and withdrawals if present.
    rest: &'a [u8],
    /// Bytes of the body, with the list's length prefix and without senders.
    length: usize,
}

/// One transaction of a body.
pub(crate) struct BodyTransaction<'a> {
    /// Its item in the list.
    pub(crate) item: &'a [u8],
    /// Its canonical bytes.
    pub(crate) canonical: &'a [u8],
}

/// Splits a body.
pub(crate) fn split_body(record: &[u8]) -> Option<Body<'_>> {
    let mut input = Input(record);
    let count = input.count()?;
    let senders = input.take(count.checked_mul(20)?)?;
    let length = input.0.len();
    let mut items = input.0;
    let list = alloy_rlp::Header::decode(&mut items).ok().filter(|header| header.list)?;
    let (transactions, rest) = items.split_at_checked(list.payload_length)?;
    Some(Body { senders, transactions, rest, length })
}

impl<'a> Body<'a> {
    /// How many transactions there are.
    pub(crate) const fn count(&self) -> usize {
        self.senders.len() / 20
    }

    /// Bytes after the header in the block's RLP list.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    /// The sender of the transaction at a position.
    pub(crate) fn sender(&self, position: usize) -> Option<Address> {
        let start = position.checked_mul(20)?;
        self.senders.get(start..start.checked_add(20)?).map(Address::from_slice)
    }

    /// The transactions in order, up to the first malformed one.
    pub(crate) fn transactions(&self) -> impl Iterator<Item = BodyTransaction<'a>> {
        let mut left = self.transactions;
        std::iter::from_fn(move || {
            let mut content = left;
            let header = alloy_rlp::Header::decode(&mut content).ok()?;
            let prefix = left.len() - content.len();
            let (item, after) = left.split_at_checked(prefix.checked_add(header.payload_length)?)?;
            left = after;
            // The item of a legacy transaction is its canonical form; typed ones are wrapped in a byte string.
            Some(BodyTransaction { item, canonical: if header.list { item } else { &item[prefix..] } })
        })
    }

    /// The RLP list of transactions and uncles, without withdrawals: writes the headers of this list and of the
    /// transactions to `list_headers`, and returns the transactions and the list of uncles. `None` if the body is corrupt.
    pub(crate) fn lists_for_peers(&self, list_headers: &mut Vec<u8>) -> Option<[&'a [u8]; 2]> {
        let mut after_uncles = self.rest;
        let uncles = alloy_rlp::Header::decode(&mut after_uncles).ok().filter(|header| header.list)?;
        after_uncles = after_uncles.get(uncles.payload_length..)?;
        let uncles = self.rest.strip_suffix(after_uncles)?;
        let transactions = alloy_rlp::Header { list: true, payload_length: self.transactions.len() };
        let payload_length = transactions.length_with_payload() + uncles.len();
        list_headers.clear();
        alloy_rlp::Header { list: true, payload_length }.encode(list_headers);
        transactions.encode(list_headers);
        Some([self.transactions, uncles])
    }

    /// RLP of a block with this header and the body without its transactions.
    pub(crate) fn rest_as_block(&self, header_rlp: &[u8]) -> Vec<u8> {
        let payload_length = header_rlp.len() + 1 + self.rest.len();
        let mut block_rlp = Vec::with_capacity(payload_length + 9);
        alloy_rlp::Header { list: true, payload_length }.encode(&mut block_rlp);
        block_rlp.extend_from_slice(header_rlp);
        block_rlp.push(alloy_rlp::EMPTY_LIST_CODE);
        block_rlp.extend_from_slice(self.rest);
        block_rlp
    }
}

/// Splits a block's RLP list into the header and the remaining items.
fn split_block(block_rlp: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut items = block_rlp;
    let block = alloy_rlp::Header::decode(&mut items).ok()?;
    if !block.list || items.len() != block.payload_length {
        return None;
    }
    let mut rest = items;
    let header = alloy_rlp::Header::decode(&mut rest).ok()?;
    let length = items.len() - rest.len() + header.payload_length;
    items.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_split_after_its_header_and_rejoined() {
        // [[1, 2], [], []]
        let block = [0xc5, 0xc2, 1, 2, 0xc0, 0xc0];
        let senders = vec![Address::repeat_byte(7)];

        let record = encode_body(&senders, &block).unwrap();

        assert_eq!(decode_body(&[0xc2, 1, 2], &record), Some((senders, block.to_vec())));
    }
}
