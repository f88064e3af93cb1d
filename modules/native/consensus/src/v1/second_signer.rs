//! Double validation: the required second signer of a block (`docs/spec/consensus.md` 2.5).

use tenon_api::Address;

use super::V1Error;

/// Length of a number in the `Validators` item of a checkpoint.
const NUMBER_BYTES: usize = 4;

/// Decodes the `Validators` item: decimal text, padded with zero bytes to four, one per masternode.
///
/// # Errors
/// [`V1Error::ValidatorsLength`], [`V1Error::ValidatorNumber`].
pub fn decode_numbers(item: &[u8]) -> Result<Vec<i64>, V1Error> {
    if !item.len().is_multiple_of(NUMBER_BYTES) {
        return Err(V1Error::ValidatorsLength(item.len()));
    }
    item.chunks_exact(NUMBER_BYTES).map(decode_number).collect()
}

fn decode_number(group: &[u8]) -> Result<i64, V1Error> {
    let is_text = |byte: &u8| *byte != 0;
    let start = group.iter().position(is_text).unwrap_or(group.len());
    let end = group.iter().rposition(is_text).map_or(start, |last| last + 1);
    let text = String::from_utf8_lossy(&group[start..end]).into_owned();
    text.parse().map_err(|_| V1Error::ValidatorNumber { text })
}

/// The inverse of [`decode_numbers`]. Numbers of more than four digits, for which no list of masternodes is long
/// enough, keep their last four.
pub fn encode_numbers(numbers: &[u32]) -> Vec<u8> {
    let mut item = Vec::with_capacity(numbers.len() * NUMBER_BYTES);
    for number in numbers {
        let text = number.to_string();
        let mut group = [0; NUMBER_BYTES];
        for (target, digit) in group.iter_mut().rev().zip(text.bytes().rev()) {
            *target = digit;
        }
        item.extend_from_slice(&group);
    }
    item
}

/// The pairs of an epoch, from its checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    /// The masternodes, in the order of their turns.
    pub masternodes: &'a [Address],
    /// The number drawn for each of them.
    pub numbers: &'a [i64],
    /// Blocks of an epoch.
    pub epoch: u64,
    /// Height from which the pairs rotate.
    pub tip_randomize: u64,
}

/// The required second signer of block `number` by `creator`. From `tip_randomize` on, the pairs rotate by one place
/// each time that all masternodes have had a turn. A creator that is not listed has no partner: the result is the zero
/// address, which signs nothing.
///
/// # Errors
/// [`V1Error::TooFewPartners`] if the checkpoint has fewer numbers than masternodes; [`V1Error::ValidatorNumber`] if a
/// number is negative.
pub fn second_signer(pairs: Pairs<'_>, creator: Address, number: u64) -> Result<Address, V1Error> {
    let Pairs { masternodes, numbers, .. } = pairs;
    if numbers.len() < masternodes.len() {
        return Err(V1Error::TooFewPartners);
    }
    let length = masternodes.len() as u64;
    // If a creator is listed twice, its last place counts: the reference fills a map.
    let Some(place) = masternodes.iter().rposition(|masternode| *masternode == creator) else {
        return Ok(Address::ZERO);
    };
    let own = numbers[place];
    let own = u64::try_from(own).map_err(|_| V1Error::ValidatorNumber { text: own.to_string() })?;
    let partner = (own % length + pairs.moves(number, length)) % length;
    let partner = usize::try_from(partner).unwrap_or(usize::MAX);
    Ok(masternodes.get(partner).copied().unwrap_or_default())
}

impl Pairs<'_> {
    /// Number of places by which the pairs have rotated at this block. `length` is not zero.
    const fn moves(&self, number: u64, length: u64) -> u64 {
        if number < self.tip_randomize { 0 } else { (number % self.epoch / length) % length }
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;
    use proptest::prelude::*;

    use super::*;
    use crate::test_data;

    #[test]
    fn reads_the_published_list_of_numbers() {
        let vectors = test_data::consensus_vectors();
        let item = hex::decode(vectors["validatorsField"]["hex"].as_str().unwrap()).unwrap();
        let values: Vec<u32> = serde_json::from_value(vectors["validatorsField"]["values"].clone()).unwrap();

        let numbers = decode_numbers(&item).unwrap();

        assert!(numbers.iter().copied().eq(values.iter().map(|value| i64::from(*value))));
        assert_eq!(encode_numbers(&values), item);
    }

    #[test]
    fn refuses_malformed_numbers_with_the_references_texts() {
        let cases: [(&[u8], &str); 4] = [
            (&[0, 0, 0, b'1', 0], "invalid byte array length 5 for validators"),
            (&[0; 4], "can not convert string  to integer: strconv.Atoi: parsing \"\": invalid syntax"),
            (b"1\x002\0", "can not convert string 1\u{0}2 to integer"),
            (b"\0\0-x", "can not convert string -x to integer"),
        ];

        for (item, text) in cases {
            let error = decode_numbers(item).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }

    fn pairs<'a>(masternodes: &'a [Address], numbers: &'a [i64]) -> Pairs<'a> {
        Pairs { masternodes, numbers, epoch: 900, tip_randomize: 3_464_000 }
    }

    #[test]
    fn rotates_the_pairs_by_one_place_after_each_round() {
        let list: Vec<Address> = (1..=3).map(Address::with_last_byte).collect();
        let pairs = pairs(&list, &[2, 1, 0]);
        let wanted = [0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0, 1, 1, 1, 2, 2, 2];

        for (number, turned) in (3_464_001..).zip(wanted) {
            assert_eq!(pairs.moves(number, 3), turned, "{number}");
        }
        assert_eq!(second_signer(pairs, list[0], 3_463_999), Ok(list[2]));
        assert_eq!(second_signer(pairs, list[0], 3_464_103), Ok(list[0]), "rotated by one place");
    }

    #[test]
    fn unknown_creators_have_no_partner_and_short_lists_are_refused() {
        let list: Vec<Address> = (1..=3).map(Address::with_last_byte).collect();
        let partner = |masternodes, numbers, creator| second_signer(pairs(masternodes, numbers), creator, 901);

        assert_eq!(partner(&list, &[2, 1, 0], Address::with_last_byte(9)), Ok(Address::ZERO));
        assert_eq!(partner(&list, &[2, 1], list[0]), Err(V1Error::TooFewPartners));
        assert_eq!(partner(&[], &[], list[0]), Ok(Address::ZERO));
        assert!(partner(&list, &[-1, 1, 2], list[0]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_numbers_or_an_error(item in proptest::collection::vec(any::<u8>(), 0..64)) {
            let list: Vec<Address> = (1..=7).map(Address::with_last_byte).collect();
            if let Ok(numbers) = decode_numbers(&item) {
                let _ = second_signer(pairs(&list, &numbers), list[3], 3_465_000);
            }
        }

        #[test]
        fn numbers_round_trip(numbers in proptest::collection::vec(0_u32..10_000, 0..200)) {
            let read = decode_numbers(&encode_numbers(&numbers)).unwrap();

            prop_assert!(read.into_iter().eq(numbers.into_iter().map(i64::from)));
        }
    }
}
