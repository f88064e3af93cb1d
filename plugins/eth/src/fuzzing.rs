//! The reader of what another build hands over, as the fuzz target sees it (`fuzz/`). Not for others.

use std::time::Duration;

use tenon_sdk::{Param, RawArgument, api::B256};

use crate::{
    criteria::Criteria,
    registry::{Position, Registry, Watched},
};

/// Takes filters over from these bytes and hands them on.
pub fn handed_over(bytes: &[u8]) -> Vec<u8> {
    Registry::new(bytes).export()
}

/// What is handed over with no filter, and with some of every kind.
pub fn examples() -> Vec<Vec<u8>> {
    const CRITERIA: &str = r#"{"fromBlock":"0x1","address":["0x1111111111111111111111111111111111111111"],
        "topics":[null,["0x2222222222222222222222222222222222222222222222222222222222222222"]]}"#;
    let registry = Registry::new(&[]);
    let mut examples = vec![registry.export()];
    let watched = Criteria::decode(RawArgument::new(CRITERIA)).ok().map(Watched::Logs);
    for (watched, position) in [Watched::Blocks, Watched::PendingTransactions].into_iter().chain(watched).zip([
        Position::Block(B256::repeat_byte(7)),
        Position::Cursor(7),
        Position::Block(B256::repeat_byte(8)),
    ]) {
        if registry.install(Duration::from_secs(7), watched, position).is_ok() {
            examples.push(registry.export());
        }
    }
    examples
}
