//! Criteria for logs: `docs/spec/rpc-eth.md` 14.1.

use tenon_sdk::{param::ParamDescription, prelude::*};

use crate::dialect::Dialect;

/// Maximum number of addresses, of positions of topics, and of topics of all positions together, in one set of
/// criteria.
const MAX_VALUES: usize = 1000;
/// Maximum positions of topics of a filter or subscription: a log has no more topics.
const MAX_POSITIONS: usize = 4;
const BAD_RANGE: &str = "invalid from and to block combination: from > to";

/// Which logs, and in which blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Criteria {
    pub(crate) scope: Scope,
    pub(crate) filter: LogFilter,
}

/// Where to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Scope {
    /// One block of any branch.
    Block(B256),
    /// Blocks of the canonical chain; tags are resolved when the query runs.
    Range { from: BlockId, to: BlockId },
}

impl Criteria {
    /// Its heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let LogFilter { addresses, topics } = &self.filter;
        let values: usize = topics.iter().map(Vec::capacity).sum();
        addresses.capacity() * size_of::<Address>()
            + topics.capacity() * size_of::<Vec<B256>>()
            + values * size_of::<B256>()
    }

    /// Whether new logs of a block at this height match: numeric bounds count, tags do not.
    pub(crate) fn covers(&self, number: BlockNumber) -> bool {
        let Scope::Range { from, to } = self.scope else { return true };
        let is_after_start = !matches!(from, BlockId::Number(from) if number < from);
        let is_before_end = !matches!(to, BlockId::Number(to) if number > to);
        is_after_start && is_before_end
    }

    /// Sorts the values, whose order has no meaning, for [`Criteria::matches_sorted`].
    pub(crate) fn sort_values(&mut self) {
        let LogFilter { addresses, topics } = &mut self.filter;
        addresses.sort_unstable();
        addresses.dedup();
        for values in topics {
            values.sort_unstable();
            values.dedup();
        }
    }

    /// Whether a new log matches. The values must be sorted: a thousand of them cost ten comparisons.
    pub(crate) fn matches_sorted(&self, log: &LocatedLog) -> bool {
        let LogFilter { addresses, topics } = &self.filter;
        let Log { address, topics: has, .. } = &log.log;
        self.covers(log.block_number)
            && (addresses.is_empty() || addresses.binary_search(address).is_ok())
            && topics.len() <= has.len()
            && topics.iter().zip(has).all(|(wanted, topic)| wanted.is_empty() || wanted.binary_search(topic).is_ok())
    }

    /// Refuses criteria that a filter cannot use: a single block, whose logs never change, and a range that ends before
    /// it begins. The interface document allows `blockHash` only for `eth_getLogs`.
    pub(crate) fn check_filter(&self) -> Result<(), Failure> {
        const PENDING: BlockId = BlockId::Tag(BlockTag::Pending);
        let is_wrong = match self.scope {
            Scope::Block(_) => {
                let text =
                    "invalid argument 0: blockHash is for eth_getLogs only; a filter takes fromBlock and toBlock";
                return Err(Failure::invalid_params(text));
            }
            Scope::Range { from: PENDING, to } => to != PENDING,
            Scope::Range { from: BlockId::Number(from), to: BlockId::Number(to) } => from > to,
            Scope::Range { .. } => false,
        };
        if is_wrong { Err(Failure::server(BAD_RANGE)) } else { Ok(()) }
    }

    /// Refuses ranges that a subscription can never match, with the error of the reference. As in the reference, a
    /// range must end at a number, `latest` or `pending`.
    pub(crate) fn check_watchable(&self, dialect: &Dialect) -> Result<(), Failure> {
        let Scope::Range { from, to } = self.scope else { return Ok(()) };
        const LATEST: BlockId = BlockId::LATEST;
        const PENDING: BlockId = BlockId::Tag(BlockTag::Pending);
        if !dialect.has_pending_logs && (from == PENDING || to == PENDING) {
            return Err(Failure::invalid_params("pending logs are not supported"));
        }
        let is_allowed = match (from, to) {
            (_, PENDING) => true,
            (PENDING, _) => false,
            (_, LATEST) => true,
            (BlockId::Number(from), BlockId::Number(to)) => from <= to,
            (BlockId::Tag(BlockTag::Earliest), BlockId::Number(_)) => true,
            _ => false,
        };
        match is_allowed {
            true => Ok(()),
            false => Err(Failure::server(BAD_RANGE)),
        }
    }
}

impl Param for Criteria {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let object = Object::decode(raw, "filters.input")?;
        let from = object.optional::<BlockNumberParam>("fromBlock")?;
        let to = object.optional::<BlockNumberParam>("toBlock")?;
        let hash = object.optional::<B256>("blockHash")?;
        // The reference reads all members before it compares them, so this comes before the conflict.
        let topics = object.raw("topics").map(decode_topics).transpose();
        if let Err(error @ ArgumentError::Mismatch { .. }) = topics {
            return Err(error.in_field("input", "topics"));
        }
        let scope = match hash {
            Some(_) if from.is_some() || to.is_some() => {
                return Err(ArgumentError::text(
                    "cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other",
                ));
            }
            Some(hash) => Scope::Block(hash),
            None => {
                let end = |end: Option<BlockNumberParam>| end.map_or(BlockId::LATEST, |end| end.0);
                Scope::Range { from: end(from), to: end(to) }
            }
        };
        let filter = LogFilter {
            addresses: object.raw("address").map(decode_addresses).transpose()?.unwrap_or_default(),
            topics: topics?.unwrap_or_default(),
        };
        Ok(Self { scope, filter })
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"object"}"#)
    }
}

/// Criteria that a filter or subscription keeps, with at most four topic positions. In a search, `eth_getLogs` refuses
/// more positions, with the reference's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastingCriteria(pub(crate) Criteria);

impl Param for LastingCriteria {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let criteria = Criteria::decode(raw)?;
        match criteria.filter.topics.len() {
            0..=MAX_POSITIONS => Ok(Self(criteria)),
            _ => Err(invalid(format!("more than {MAX_POSITIONS} topic positions"))),
        }
    }

    fn description() -> ParamDescription {
        Criteria::description()
    }
}

fn decode_addresses(raw: RawArgument<'_>) -> Result<Vec<Address>, ArgumentError> {
    if let Some(text) = raw.string() {
        let address =
            decode_hex(&text, true, "address").map_err(|reason| invalid(format!("invalid address: {reason}")));
        return Ok(vec![Address::new(address?)]);
    }
    let values = raw.array().ok_or_else(|| invalid("invalid addresses in query"))?;
    let mut addresses = Vec::new();
    for (index, value) in values.enumerate() {
        bound(index, MAX_VALUES, "addresses")?;
        let text = value.string().ok_or_else(|| invalid(format!("non-string address at index {index}")))?;
        let address = decode_hex(&text, true, "address")
            .map_err(|reason| invalid(format!("invalid address at index {index}: {reason}")))?;
        addresses.push(Address::new(address));
    }
    // It may be kept as long as its filter or subscription.
    addresses.shrink_to_fit();
    Ok(addresses)
}

fn decode_topics(raw: RawArgument<'_>) -> Result<Vec<Vec<B256>>, ArgumentError> {
    let positions = raw.array().ok_or(ArgumentError::mismatch(raw.kind(), "[]interface {}"))?;
    let mut topics = Vec::new();
    let mut values = 0;
    for (index, position) in positions.enumerate() {
        bound(index, MAX_VALUES, "topic positions")?;
        topics.push(decode_position(position, &mut values)?);
    }
    Ok(topics)
}

/// The allowed values of one position; empty means any. `count` is the number of topics read so far, of all positions.
fn decode_position(raw: RawArgument<'_>, count: &mut usize) -> Result<Vec<B256>, ArgumentError> {
    if raw.is_null() {
        return Ok(Vec::new());
    }
    if let Some(text) = raw.string() {
        bound(*count, MAX_VALUES, "topics")?;
        *count += 1;
        return Ok(vec![decode_topic(&text)?]);
    }
    let values = raw.array().ok_or_else(|| invalid("invalid topic(s)"))?;
    let mut topics = Vec::new();
    for value in values {
        bound(*count, MAX_VALUES, "topics")?;
        *count += 1;
        // A null among the values makes the whole position a wildcard and ends its reading.
        if value.is_null() {
            return Ok(Vec::new());
        }
        topics.push(decode_topic(&value.string().ok_or_else(|| invalid("invalid topic(s)"))?)?);
    }
    topics.shrink_to_fit();
    Ok(topics)
}

fn decode_topic(text: &str) -> Result<B256, ArgumentError> {
    decode_hex(text, false, "topic").map(B256::new).map_err(invalid)
}

/// Decodes exactly `N` bytes; the error is the reason.
fn decode_hex<const N: usize>(text: &str, allows_native_prefix: bool, what: &str) -> Result<[u8; N], String> {
    if text.is_empty() {
        return Err("empty hex string".to_owned());
    }
    let has_native_prefix = text.get(..3).is_some_and(|prefix| prefix.eq_ignore_ascii_case("xdc"));
    let digits = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => digits,
        None if allows_native_prefix && has_native_prefix => &text[3..],
        None => return Err("hex string without 0x prefix".to_owned()),
    };
    // Go's decoder checks every digit before the length.
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err("invalid hex string".to_owned());
    }
    if digits.len() % 2 == 1 {
        return Err("hex string of odd length".to_owned());
    }
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return Err(format!("hex has invalid length {} after decoding; expected {N} for {what}", digits.len() / 2));
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let nibble = |digit: u8| char::from(digit).to_digit(16).unwrap_or_default() as u8;
        *byte = nibble(pair[0]) << 4 | nibble(pair[1]);
    }
    Ok(bytes)
}

fn bound(count: usize, max: usize, what: &str) -> Result<(), ArgumentError> {
    match count < max {
        true => Ok(()),
        false => Err(invalid(format!("more than {max} {what}"))),
    }
}

fn invalid(text: impl Into<String>) -> ArgumentError {
    ArgumentError::text(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: &str = "0x00000000000000000000000000000000000000000000000000000000656d6974";

    fn decode(json: &str) -> Result<Criteria, String> {
        Criteria::decode(RawArgument::new(json)).map_err(|error| error.to_string())
    }

    #[test]
    fn no_criteria_mean_every_log_of_the_latest_block() {
        for json in ["{}", "null", r#"{"address":[],"topics":[]}"#, r#"{"address":null,"toBlock":null}"#] {
            let criteria = decode(json).expect("well formed");
            assert_eq!(criteria.scope, Scope::Range { from: BlockId::LATEST, to: BlockId::LATEST });
            assert_eq!(criteria.filter, LogFilter::default());
        }
    }

    #[test]
    fn topics_nest_and_wildcards_keep_their_position() {
        let json = format!(r#"{{"topics":[null,"{TOPIC}",["{TOPIC}","{TOPIC}"],["{TOPIC}",null,5]]}}"#);

        let topics = decode(&json).expect("well formed").filter.topics;

        assert_eq!(topics.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 2, 0]);
    }

    #[test]
    fn positions_topics_and_addresses_are_bounded_together() {
        let list = |value: &str, count: usize| format!("[{}]", vec![format!("\"{value}\""); count].join(","));
        let topics = |counts: &[usize]| {
            let positions: Vec<String> = counts.iter().map(|count| list(TOPIC, *count)).collect();
            decode(&format!(r#"{{"topics":[{}]}}"#, positions.join(",")))
        };
        let addresses = |count| decode(&format!(r#"{{"address":{}}}"#, list(&format!("0x{:040x}", 7), count)));

        let largest = topics(&[250, 250, 250, 250]).expect("the largest that is allowed");

        assert!((32_000..33_000).contains(&largest.heap_bytes()), "{}", largest.heap_bytes());
        assert_eq!(topics(&[1000]).map(|_| ()), Ok(()));
        assert_eq!(topics(&[250, 250, 250, 251]), Err("more than 1000 topics".to_owned()));
        let lasting = |json| LastingCriteria::decode(RawArgument::new(json)).map_err(|error| error.to_string());
        assert!(lasting(r#"{"topics":[[],[],[],[]]}"#).is_ok());
        assert_eq!(lasting(r#"{"topics":[[],[],[],[],[]]}"#), Err("more than 4 topic positions".to_owned()));
        assert_eq!(topics(&[0; 1001]), Err("more than 1000 topic positions".to_owned()));
        assert_eq!(addresses(1000).map(|criteria| criteria.heap_bytes()), Ok(20_000));
        assert_eq!(addresses(1001), Err("more than 1000 addresses".to_owned()));
    }

    #[test]
    fn errors_have_the_texts_of_the_reference() {
        let cases = [
            (
                format!(r#"{{"blockhash":"{TOPIC}","fromBlock":"0x3"}}"#),
                "cannot specify both BlockHash and FromBlock/ToBlock, choose one or the other",
            ),
            (
                r#"{"address":"0x12"}"#.into(),
                "invalid address: hex has invalid length 1 after decoding; expected 20 for address",
            ),
            (r#"{"address":[""]}"#.into(), "invalid address at index 0: empty hex string"),
            (r#"{"address":"0xzz1"}"#.into(), "invalid address: invalid hex string"),
            (r#"{"address":"0x123"}"#.into(), "invalid address: hex string of odd length"),
            (r#"{"topics":["0xzz1"]}"#.into(), "invalid hex string"),
            (r#"{"address":[1]}"#.into(), "non-string address at index 0"),
            (r#"{"address":5}"#.into(), "invalid addresses in query"),
            (r#"{"topics":["0x12"]}"#.into(), "hex has invalid length 1 after decoding; expected 32 for topic"),
            (r#"{"topics":["12"]}"#.into(), "hex string without 0x prefix"),
            (r#"{"topics":[[1]]}"#.into(), "invalid topic(s)"),
            (
                r#"{"topics":"0x12","blockHash":null}"#.into(),
                "json: cannot unmarshal string into Go struct field input.topics of type []interface {}",
            ),
        ];

        for (json, expected) in cases {
            assert_eq!(decode(&json), Err(expected.to_owned()), "{json}");
        }
    }

    #[test]
    fn a_filter_accepts_every_range_of_a_search_but_no_single_block() {
        let cases = [
            ("{}", true),
            (r#"{"toBlock":"0x2"}"#, true),
            (r#"{"toBlock":"safe"}"#, true),
            (r#"{"fromBlock":"safe","toBlock":"finalized"}"#, true),
            (r#"{"fromBlock":"latest","toBlock":"pending"}"#, true),
            (r#"{"fromBlock":"pending","toBlock":"pending"}"#, true),
            (r#"{"fromBlock":"pending"}"#, false),
            (r#"{"fromBlock":"0x3","toBlock":"0x2"}"#, false),
        ];
        for (json, expected) in cases {
            let criteria = decode(json).expect("well formed");
            assert_eq!(criteria.check_filter().is_ok(), expected, "{json}");
        }
        let one_block = decode(&format!(r#"{{"blockHash":"{}"}}"#, B256::ZERO)).expect("well formed");
        let refused = one_block.check_filter().map_err(|failure| failure.code);
        assert_eq!(refused, Err(FailureCode::INVALID_PARAMS));
    }

    #[test]
    fn only_ranges_that_can_match_new_blocks_can_be_subscribed_to() {
        let cases = [
            ("{}", true),
            (r#"{"fromBlock":"0x1","toBlock":"0x2"}"#, true),
            (r#"{"fromBlock":"0x3","toBlock":"0x2"}"#, false),
            (r#"{"fromBlock":"0x3"}"#, true),
            (r#"{"fromBlock":"safe"}"#, true),
            (r#"{"fromBlock":"earliest","toBlock":"0x2"}"#, true),
            (r#"{"toBlock":"0x2"}"#, false),
            (r#"{"toBlock":"finalized"}"#, false),
            (r#"{"fromBlock":"pending"}"#, false),
        ];

        for (json, expected) in cases {
            let criteria = decode(json).expect("well formed");
            assert_eq!(criteria.check_watchable(&Dialect::ETHEREUM).is_ok(), expected, "{json}");
            assert_eq!(criteria.check_watchable(&Dialect::NATIVE).is_ok(), expected, "{json}");
        }
    }

    #[test]
    fn numbers_bound_the_watched_blocks() {
        let criteria = decode(r#"{"fromBlock":"0x5","toBlock":"0x6"}"#).expect("well formed");

        let covered: Vec<u64> = (0..10).filter(|number| criteria.covers(BlockNumber(*number))).collect();

        assert_eq!(covered, [5, 6]);
    }
}
