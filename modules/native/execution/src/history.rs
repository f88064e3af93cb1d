//! The history contract on native chains (EIP-2935, `docs/spec/upgrades.md` 7.3).

use alloy_primitives::{B256, Bytes, b256, hex};
use tenon_api::Header;

use tenon_execution_interface::{AnyEvm, BlockState, ExecutionError, HISTORY_STORAGE_ADDRESS, OwnFailure, system_call};

/// The contract's code: the EIP's. A native chain puts it in place by itself, without a transaction.
const CODE: [u8; 83] = hex!(
    "3373fffffffffffffffffffffffffffffffffffffffe14604657602036036042575f35600143038111604257611fff81430311604257611fff90"
    "06545f5260205ff35b5f5ffd5b5f35611fff60014303065500"
);
/// The hash of [`CODE`].
const CODE_HASH: B256 = b256!("6e49e66782037c0555897870e29fa5e552daf4719552131a0abce779daec0a5d");

/// Puts the contract in place if it is not there yet, and stores the parent's hash through it. A failed call changes
/// nothing and does not invalidate the block.
///
/// When the reference deploys the contract, it also fills slots for earlier blocks, from the fork's parent on. Code
/// never disappears, so it deploys in the fork block or in block 1, and the parent is the only such block.
///
/// # Errors
/// [`ExecutionError::Unsupported`] if other code is at the address: the rules do not define such a block (7.3).
/// [`ExecutionError::Store`] if the state cannot be read.
pub(super) fn store_parent_hash(evm: &mut AnyEvm<'_>, header: &Header) -> Result<(), ExecutionError> {
    deploy(&mut evm.context().journaled_state.database, header)?;
    match system_call(evm, HISTORY_STORAGE_ADDRESS, header.parent_hash.0.into()) {
        Ok(_) => {}
        Err(failure) => match OwnFailure::of(failure, &evm.context().chain) {
            Ok(own) => return Err(own.in_block(header.number.into())),
            Err(failure) => tracing::debug!(number = header.number, %failure, "call of the history contract failed"),
        },
    }
    Ok(())
}

fn deploy(state: &mut BlockState, header: &Header) -> Result<(), ExecutionError> {
    match state.code_hash(HISTORY_STORAGE_ADDRESS)? {
        Some(CODE_HASH) => Ok(()),
        Some(other) => Err(ExecutionError::Unsupported {
            number: header.number.into(),
            what: format!("code {other} at the address of the history contract"),
        }),
        None => {
            state.set_code(HISTORY_STORAGE_ADDRESS, Bytes::from_static(&CODE))?;
            Ok(state.update(HISTORY_STORAGE_ADDRESS, |info| info.nonce = info.nonce.max(1))?)
        }
    }
}
