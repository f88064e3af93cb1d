use std::sync::Arc;

use tenon_api::{Address, BlockId, U256};

use super::{Questions, candidates::slashed};
use crate::native::recorded_state::ModelledChain;

fn questions(name: &str) -> Questions {
    let chain = ModelledChain::read(name);
    let spec = Arc::clone(&chain.chain.spec);
    Questions::new(&spec, Arc::new(chain)).unwrap()
}

// What a node of the reference answered about chain `v1switch`: tests/data/native/answers.
#[test]
fn blocks_of_both_engines_are_signed_by_whom_the_reference_names() {
    let questions = questions("v1switch");

    for (number, signers, finality) in [(0, 0, 0), (14, 3, 100), (1000, 4, 100), (2730, 2, 100), (2738, 0, 0)] {
        let found = questions.block_signers(BlockId::number(number)).unwrap();
        let count = found.signers.as_ref().map_or(0, Vec::len);
        assert_eq!((count, found.finality), (signers, finality), "block {number}");
    }
}

#[test]
fn slashed_are_the_penalised_candidates_until_there_are_masternodes_enough() {
    let of = |digits: &[u8]| -> Vec<Address> { digits.iter().map(|digit| Address::repeat_byte(*digit)).collect() };
    let candidates: Vec<_> = of(&[1, 2, 3, 4]).into_iter().map(|candidate| (candidate, U256::ONE)).collect();

    assert_eq!(slashed(&candidates, &of(&[4, 2, 9]), 1, 5), of(&[2, 4]));
    assert_eq!(slashed(&candidates, &of(&[4, 2]), 2, 3), of(&[2]));
    // A penalty of two epochs counts twice, as in the reference.
    assert_eq!(slashed(&candidates, &of(&[2, 2, 4]), 1, 3), of(&[2, 2]));
    assert_eq!(slashed(&candidates, &[], 1, 3), of(&[]));
}
