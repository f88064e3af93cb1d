//! Keccak-256 of eight public keys at a time.

use crate::lanes::{Lanes, Operation, five};

/// Constants of the 24 rounds.
const ROUNDS: [u64; 24] = [
    0x0000_0000_0000_0001,
    0x0000_0000_0000_8082,
    0x8000_0000_0000_808a,
    0x8000_0000_8000_8000,
    0x0000_0000_0000_808b,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8009,
    0x0000_0000_0000_008a,
    0x0000_0000_0000_0088,
    0x0000_0000_8000_8009,
    0x0000_0000_8000_000a,
    0x0000_0000_8000_808b,
    0x8000_0000_0000_008b,
    0x8000_0000_0000_8089,
    0x8000_0000_0000_8003,
    0x8000_0000_0000_8002,
    0x8000_0000_0000_0080,
    0x0000_0000_0000_800a,
    0x8000_0000_8000_000a,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8080,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8008,
];
/// Rotations of the words of the state (FIPS 202, 3.2.2), at `x + 5 × y`.
const ROTATIONS: [u32; 25] =
    [0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14];

/// The hash of a message of eight words per lane, as four words; words are little-endian, as in the algorithm.
pub(crate) fn keccak256_of_64_bytes<L: Lanes>(message: &[L; 8]) -> [L; 4] {
    L::run_operation(Keccak(message))
}

struct Keccak<'a, L>(&'a [L; 8]);

impl<L: Lanes> Operation for Keccak<'_, L> {
    type Output = [L; 4];

    #[inline(always)]
    fn run(self) -> [L; 4] {
        let mut state = [L::splat(0); 25];
        state[..8].copy_from_slice(self.0);
        // Padding of Keccak (not SHA-3): one bit after the message and one at the end of the block of 136 bytes.
        state[8] = L::splat(1);
        state[16] = L::splat(1 << 63);
        for constant in ROUNDS {
            let parity: [L; 5] =
                five!(x => state[x].xor3(state[x + 5], state[x + 10]).xor3(state[x + 15], state[x + 20]));
            let effect: [L; 5] = five!(x => parity[(x + 4) % 5] ^ parity[(x + 1) % 5].rotate_left(1));
            // Word (x, y) goes to (y, 2x + 3y).
            let mut moved = state;
            for x in 0..5 {
                for y in 0..5 {
                    let rotated = (state[x + 5 * y] ^ effect[x]).rotate_left(ROTATIONS[x + 5 * y]);
                    moved[y + 5 * ((2 * x + 3 * y) % 5)] = rotated;
                }
            }
            for y in 0..5 {
                for x in 0..5 {
                    let [this, next, after] =
                        [moved[x + 5 * y], moved[(x + 1) % 5 + 5 * y], moved[(x + 2) % 5 + 5 * y]];
                    state[x + 5 * y] = this ^ next.not_and(after);
                }
            }
            state[0] = state[0] ^ L::splat(constant);
        }
        [state[0], state[1], state[2], state[3]]
    }
}
