//! The reference's constant gas price of each instruction (`docs/spec/chain.md` 5.2). The EVM splits the price
//! differently; only the sums are equal.

use revm::{
    bytecode::opcode::{
        BALANCE, CALL, CALLCODE, CALLDATACOPY, CODECOPY, CREATE, CREATE2, DELEGATECALL, EXP, EXTCODECOPY, EXTCODEHASH,
        EXTCODESIZE, KECCAK256, LOG0, LOG4, MCOPY, MLOAD, MSTORE, MSTORE8, RETURN, RETURNDATACOPY, REVERT,
        SELFDESTRUCT, SLOAD, SSTORE, STATICCALL,
    },
    interpreter::instructions::gas_table_spec,
    primitives::hardfork::SpecId,
};

/// The constant part of an instruction's price.
pub(super) fn constant_gas(opcode: u8, fork: SpecId) -> u64 {
    let is = |later: SpecId| fork.is_enabled_in(later);
    let by_fork = |frontier, tangerine, berlin| match () {
        () if is(SpecId::BERLIN) => berlin,
        () if is(SpecId::TANGERINE) => tangerine,
        () => frontier,
    };
    match opcode {
        SLOAD if is(SpecId::ISTANBUL) && !is(SpecId::BERLIN) => 800,
        SLOAD => by_fork(50, 200, 0),
        BALANCE if is(SpecId::ISTANBUL) && !is(SpecId::BERLIN) => 700,
        BALANCE => by_fork(20, 400, 100),
        EXTCODEHASH if is(SpecId::ISTANBUL) && !is(SpecId::BERLIN) => 700,
        EXTCODEHASH => by_fork(400, 400, 100),
        EXTCODESIZE | EXTCODECOPY => by_fork(20, 700, 100),
        CALL | CALLCODE | DELEGATECALL => by_fork(40, 700, 100),
        STATICCALL => by_fork(700, 700, 100),
        SELFDESTRUCT => by_fork(0, 5000, 5000),
        SSTORE | EXP | LOG0..=LOG4 | RETURN | REVERT => 0,
        KECCAK256 => 30,
        CALLDATACOPY | CODECOPY | RETURNDATACOPY | MCOPY | MLOAD | MSTORE | MSTORE8 => 3,
        CREATE | CREATE2 => 32_000,
        other => u64::from(gas_table_spec(fork)[usize::from(other)]),
    }
}
