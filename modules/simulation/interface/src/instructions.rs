//! EVM instructions with the reference's names and stack requirements.
//!
//! Used by error texts of calls and by the reference's tracers.

use std::borrow::Cow;

use revm::bytecode::opcode::{CLZ, DUPN, EXCHANGE, OpCode, SLOTNUM, SWAPN};

/// Instructions of the EVM that are unknown to the reference, which ends with Cancun.
const UNKNOWN_TO_THE_REFERENCE: [u8; 5] = [CLZ, SLOTNUM, DUPN, SWAPN, EXCHANGE];

/// Maximum length of the EVM's stack.
const STACK_LIMIT: usize = 1024;

/// Minimum and maximum stack length for an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackBounds {
    /// The minimum.
    pub min: usize,
    /// The maximum.
    pub max: usize,
}

impl StackBounds {
    /// The bounds of an instruction; `None` if the EVM does not know it.
    pub fn of(opcode: u8) -> Option<Self> {
        let code = OpCode::new(opcode)?;
        let (inputs, outputs) = (usize::from(code.inputs()), usize::from(code.outputs()));
        Some(Self { min: inputs, max: STACK_LIMIT + inputs - outputs })
    }

    /// The reference's text for a stack of `length` values that is too short.
    pub fn underflow_text(self, length: usize) -> String {
        format!("stack underflow ({length} <=> {})", self.min)
    }

    /// The reference's text for a stack of `length` values that is too long.
    pub fn overflow_text(self, length: usize) -> String {
        format!("stack limit reached {length} ({})", self.max)
    }
}

/// Returns whether the reference knows an instruction, in any fork.
pub fn is_known_to_the_reference(opcode: u8) -> bool {
    known(opcode).is_some()
}

/// The name of an instruction, even if no fork has it.
pub fn instruction_name(opcode: u8) -> Cow<'static, str> {
    match known(opcode) {
        Some(code) => Cow::Borrowed(code.as_str()),
        None => Cow::Owned(format!("opcode {opcode:#x} not defined")),
    }
}

/// The instruction of a name.
pub fn instruction_of(name: &str) -> Option<u8> {
    (0..=u8::MAX).find(|opcode| known(*opcode).is_some_and(|code| code.as_str() == name))
}

fn known(opcode: u8) -> Option<OpCode> {
    OpCode::new(opcode).filter(|_| !UNKNOWN_TO_THE_REFERENCE.contains(&opcode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_names_of_the_reference() {
        let cases = [
            (0x20, "KECCAK256"),
            (0x44, "DIFFICULTY"),
            (0x5f, "PUSH0"),
            (0xfe, "INVALID"),
            (0xff, "SELFDESTRUCT"),
            (0x0c, "opcode 0xc not defined"),
            (0x1e, "opcode 0x1e not defined"),
            (0x4b, "opcode 0x4b not defined"),
            (0xe6, "opcode 0xe6 not defined"),
            (0xe7, "opcode 0xe7 not defined"),
            (0xe8, "opcode 0xe8 not defined"),
            (0xf7, "opcode 0xf7 not defined"),
            (0xfb, "opcode 0xfb not defined"),
        ];
        for (opcode, name) in cases {
            assert_eq!(instruction_name(opcode), name);
        }
        assert_eq!(instruction_of("SLOAD"), Some(0x54));
        assert_eq!(instruction_of("SLOADS"), None);
        assert_eq!(instruction_of("CLZ"), None);
    }

    #[test]
    fn stack_bounds_equal_the_references() {
        let cases =
            [(0x50, 1, 1025, "POP"), (0x60, 0, 1023, "PUSH1"), (0x80, 1, 1023, "DUP1"), (0x91, 3, 1024, "SWAP2")];
        for (opcode, min, max, name) in cases {
            assert_eq!(StackBounds::of(opcode), Some(StackBounds { min, max }), "{name}");
        }
        assert_eq!(StackBounds::of(0x0c), None);
    }
}
