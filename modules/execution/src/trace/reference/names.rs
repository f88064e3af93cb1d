//! Instructions by the reference's names.

use std::borrow::Cow;

use revm::bytecode::opcode::OpCode;

/// Instructions that the EVM below knows and the reference does not, not even by name.
const UNKNOWN_TO_THE_REFERENCE: [u8; 7] = [0x1e, 0x4b, 0xe6, 0xe7, 0xe8, 0xf7, 0xfb];

/// The name of an instruction, also where no fork has it.
pub(super) fn instruction_name(opcode: u8) -> Cow<'static, str> {
    match known(opcode) {
        Some(code) => Cow::Borrowed(code.as_str()),
        None => Cow::Owned(format!("opcode {opcode:#x} not defined")),
    }
}

/// The instruction of a name.
pub(super) fn instruction_of(name: &str) -> Option<u8> {
    (0..=u8::MAX).find(|opcode| known(*opcode).is_some_and(|code| code.as_str() == name))
}

/// How many items an instruction takes from the stack, and how many it may find there at most.
pub(super) fn stack_bounds(opcode: u8) -> Option<(usize, usize)> {
    let code = known(opcode)?;
    let (inputs, outputs) = (usize::from(code.inputs()), usize::from(code.outputs()));
    Some((inputs, STACK_LIMIT + inputs - outputs))
}

const STACK_LIMIT: usize = 1024;

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
        ];
        for (opcode, name) in cases {
            assert_eq!(instruction_name(opcode), name);
        }
        assert_eq!(instruction_of("SLOAD"), Some(0x54));
        assert_eq!(instruction_of("SLOADS"), None);
    }

    #[test]
    fn stack_bounds_are_those_of_the_reference() {
        assert_eq!(stack_bounds(0x50), Some((1, 1025)), "POP");
        assert_eq!(stack_bounds(0x60), Some((0, 1023)), "PUSH1");
        assert_eq!(stack_bounds(0x80), Some((1, 1023)), "DUP1");
        assert_eq!(stack_bounds(0x91), Some((3, 1024)), "SWAP2");
    }
}
