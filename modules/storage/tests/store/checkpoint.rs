//! A copy that is made while blocks are committed contains a whole block as its head.

use std::sync::atomic::{AtomicBool, Ordering};

use tenon_api::{BlockNumber, ChainReader};
use tenon_storage::Mode;

use crate::{
    crash::chain,
    support::{Writes as _, assert_state, assert_whole, fill, open},
};

#[test]
fn a_copy_of_a_store_during_writes_is_at_one_of_its_blocks_and_can_continue() {
    let maker = chain();
    let (folder, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(folder.path(), Mode::Archive);
    fill(&store, &maker.commits[..10]);
    let is_over = AtomicBool::new(false);

    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                maker.commits[10..].iter().for_each(|commit| store.commit(commit).unwrap());
                store.unwind(BlockNumber(9)).unwrap();
            }
        });
        for copy in 0..6 {
            store.make_checkpoint(&copies.path().join(copy.to_string())).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });

    assert!(store.make_checkpoint(&copies.path().join("0")).is_err(), "a folder that is there is not written to");
    for copy in 0..6 {
        let copy = open(&copies.path().join(copy.to_string()), Mode::Archive);
        let head = copy.head().number().0;
        assert_eq!(copy.head().header.hash(), maker.commits[head as usize].block.hash());
        (0..=head).for_each(|number| assert_state(&copy, number, &maker.states));
        assert_whole(&copy);
        maker.commits[head as usize + 1..].iter().for_each(|commit| copy.commit(commit).unwrap());
        assert_whole(&copy);
    }
}
