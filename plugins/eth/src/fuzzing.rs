//! Exposes the plugin's decoders to the fuzz targets (`fuzz/`) only: those of hand-overs from other builds, and of
//! callers' input.

use std::time::Duration;

use tenon_sdk::{
    Param, RawArgument,
    api::{B256, BlockNumber, messages::PercentileProblem},
    error_texts::percentile_problem_text,
};

use crate::{
    criteria::Criteria,
    dialect::Dialect,
    fees::BlockCount,
    go_rlp,
    registry::{Installer, Position, Registry, Watched, parse_id},
    settings::Settings,
    storage_key::StorageKey,
};

/// Decodes handed-over filters and encodes them again.
pub fn handed_over(bytes: &[u8]) -> Vec<u8> {
    Registry::new(bytes, |_, _| Ok(None)).export()
}

/// Hand-overs with no filter, and with some of every kind.
pub fn examples() -> Vec<Vec<u8>> {
    const CRITERIA: &str = r#"{"fromBlock":"0x1","address":["0x1111111111111111111111111111111111111111"],
        "topics":[null,["0x2222222222222222222222222222222222222222222222222222222222222222"]]}"#;
    let registry = Registry::new(&[], |_, _| Ok(None));
    let mut examples = vec![registry.export()];
    let watched = Criteria::decode(RawArgument::new(CRITERIA)).ok().map(Watched::Logs);
    for (watched, position) in [Watched::Blocks, Watched::PendingTransactions].into_iter().chain(watched).zip([
        Position::Block(B256::repeat_byte(7)),
        Position::Cursor(7),
        Position::Block(B256::repeat_byte(8)),
    ]) {
        if registry.install(Duration::from_secs(7), Installer::default(), watched, position).is_ok() {
            examples.push(registry.export());
        }
    }
    examples
}

/// Result of one of the plugin's decoders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// It was accepted.
    Taken,
    /// A storage key: decoded strictly (`None` if refused), and as the reference does.
    Key(Option<B256>, B256),
    /// The id of a filter, formatted as in an answer.
    Filter(String),
    /// It was refused with this error.
    Refused(String),
}

/// Decodes JSON text as criteria of logs (0), a count of blocks (1), percentiles (2) or settings (3), or plain text as
/// a storage key (4) or a filter id (5). `kind` counts modulo 6.
pub fn read_argument(kind: u8, text: &str) -> Read {
    let raw = RawArgument::new(text);
    let refused = |error: String| Read::Refused(error);
    match kind % 6 {
        0 => match Criteria::decode(raw) {
            Ok(criteria) => {
                let _ = criteria.covers(BlockNumber(7));
                for dialect in [&Dialect::ETHEREUM, &Dialect::NATIVE] {
                    let _ = (criteria.check_watchable(dialect), criteria.check_filter());
                }
                Read::Taken
            }
            Err(error) => refused(error.to_string()),
        },
        1 => BlockCount::decode(raw).map_or_else(|error| refused(error.to_string()), |_| Read::Taken),
        2 => match Vec::<f64>::decode(raw) {
            Ok(percentiles) => PercentileProblem::check(&percentiles)
                .map_or_else(|problem| refused(percentile_problem_text(problem)), |()| Read::Taken),
            Err(error) => refused(error.to_string()),
        },
        3 => Settings::parse(text).map_or_else(|failure| refused(failure.message), |_| Read::Taken),
        4 => Read::Key(StorageKey::parse(text).ok().map(|key| key.slot), StorageKey::parse_leniently(text)),
        _ => parse_id(text).map_or_else(|| refused("no filter".to_owned()), |id| Read::Filter(format!("{id:#x}"))),
    }
}

/// Why Go's decoder refuses the bytes of a native chain's transaction; `None` if it accepts them.
pub fn malformed_transaction(raw: &[u8]) -> Option<String> {
    go_rlp::refusal(&Dialect::NATIVE, raw)
}
