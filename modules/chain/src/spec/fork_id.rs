//! Identifier of a chain's past and next forks (EIP-2124, EIP-6122).

use alloy_primitives::B256;

use super::{Activation, ChainSpec};

/// A checksum over genesis and passed forks, and the next known fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkId {
    /// CRC-32 over the genesis hash and the passed forks.
    pub hash: [u8; 4],
    /// Height or time of the next fork, 0 if none is known.
    pub next: u64,
}

impl ForkId {
    /// The identifier, at height `number`, of a chain that schedules forks by height only, such as the native networks
    /// (`docs/spec/upgrades.md` 12.2). `heights` may be unsorted and contain duplicates.
    pub fn of_heights(genesis_hash: B256, heights: &[u64], number: u64) -> Self {
        let mut heights: Vec<u64> = heights.iter().copied().filter(|height| *height > 0).collect();
        heights.sort_unstable();
        heights.dedup();
        let mut checksum = crc32(!0, genesis_hash.as_slice());
        for height in heights {
            if number < height {
                return Self { hash: (!checksum).to_be_bytes(), next: height };
            }
            checksum = crc32(checksum, &height.to_be_bytes());
        }
        Self { hash: (!checksum).to_be_bytes(), next: 0 }
    }
}

impl ChainSpec {
    /// The fork identifier of a chain with this genesis, at a head with this height and time.
    pub fn fork_id(&self, genesis_hash: B256, genesis_time: u64, number: u64, timestamp: u64) -> ForkId {
        let (blocks, times) = self.fork_points(genesis_time);
        let mut checksum = crc32(!0, genesis_hash.as_slice());
        let points = blocks.into_iter().map(|point| (point, number)).chain(times.into_iter().map(|p| (p, timestamp)));
        for (point, reached) in points {
            if reached < point {
                return ForkId { hash: (!checksum).to_be_bytes(), next: point };
            }
            checksum = crc32(checksum, &point.to_be_bytes());
        }
        ForkId { hash: (!checksum).to_be_bytes(), next: 0 }
    }

    /// Heights and times of forks after genesis, ascending and without duplicates.
    fn fork_points(&self, genesis_time: u64) -> (Vec<u64>, Vec<u64>) {
        let mut blocks: Vec<u64> =
            [self.eip155_block, self.dao_fork_block, self.merge_netsplit_block].into_iter().flatten().collect();
        let mut times = Vec::new();
        for (_, activation) in self.activations() {
            match activation {
                Activation::Block(block) => blocks.push(*block),
                Activation::Time(time) => times.push(*time),
                Activation::TotalDifficulty(_) => {}
            }
        }
        blocks.retain(|block| *block > 0);
        times.retain(|time| *time > genesis_time);
        for points in [&mut blocks, &mut times] {
            points.sort_unstable();
            points.dedup();
        }
        (blocks, times)
    }
}

/// Continues a CRC-32 (IEEE) whose state is not yet inverted. Without a table, because calls have only a few dozen
/// bytes.
fn crc32(state: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(state, |state, byte| {
        (0..8).fold(
            state ^ u32::from(*byte),
            |state, _| {
                if state & 1 == 1 { (state >> 1) ^ 0xedb8_8320 } else { state >> 1 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{b256, hex};

    use super::*;

    /// `docs/spec/upgrades.md` 12.2.
    #[test]
    fn native_networks_have_the_identifiers_of_the_specification() {
        let testnet = b256!("bdea512b4f12ff1135ec92c00dc047ffb93890c2ea1aa0eefe9b013d80640075");
        let heights = [
            1, 2, 3, 4, 3_000_000, 3_464_000, 5_000_000, 23_779_191, 56_828_700, 61_290_000, 66_825_000, 71_550_000,
            71_551_800, 83_600_000,
        ];
        let cases = [(0, "6627b1ab", 1), (83_599_999, "ebce6795", 83_600_000), (83_600_000, "7fcfc8b0", 0)];
        for (number, hash, next) in cases {
            let id = ForkId::of_heights(testnet, &heights, number);
            assert_eq!((hex::encode(id.hash).as_str(), id.next), (hash, next), "at {number}");
        }
    }
}
