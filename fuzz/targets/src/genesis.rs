//! Genesis files.

use tenon_native_spec::read_genesis;

/// A genesis file: refused with an error, or the same block 0 each time.
pub(crate) fn file(input: &[u8]) {
    match read_genesis(input) {
        Ok(genesis) => {
            let commit = genesis.commit().expect("a genesis that was read has a block 0");
            let again = read_genesis(input).expect("what was read is read again");
            let second = again.commit().expect("what was committed is committed again");
            assert_eq!(commit.block.hash(), second.block.hash());
            assert_eq!(commit.block.header.number, genesis.header.number);
            let _ = genesis.spec.signer_rules(0, 0);
            let _ = genesis.spec.signer_rules(u64::MAX, u64::MAX);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
