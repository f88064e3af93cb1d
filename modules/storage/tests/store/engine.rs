//! What the consensus engine keeps.

use crate::support::{Maker, fill, open};
use tenon_api::{BlockNumber, ChainWriter, EngineRecords};
use tenon_storage::Mode;

#[test]
fn records_of_the_engine_survive_a_restart_and_an_unwind() {
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new();
    for _ in 0..3 {
        maker.add(Vec::new(), &[]);
    }
    let store = open(folder.path(), Mode::Pruned(1));
    fill(&store, &maker.commits);
    assert_eq!(store.record("voting").unwrap(), None);
    store.keep("voting", b"first").unwrap();
    store.keep("voting", b"second").unwrap();
    store.keep("head", &[0; 40]).unwrap();
    store.unwind(BlockNumber(2)).unwrap();
    drop(store);

    let store = open(folder.path(), Mode::Pruned(1));

    assert_eq!(store.record("voting").unwrap().as_deref(), Some(b"second".as_slice()));
    assert_eq!(tenon_api::ChainReader::head(&*store).number(), BlockNumber(2), "the folder's own records are others");
}
