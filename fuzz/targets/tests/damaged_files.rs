//! Chain files that are truncated, have flipped bits or false lengths: the reader names the block and its offset, and
//! uses at most 1 MiB plus forty times the file's length of memory. `TENON_DAMAGED_FILES` is the number of variants
//! (default and full run 10,000), `TENON_SEED` repeats a run.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::collections::BTreeMap;

use tenon_abuse_figures::Figure;
use tenon_chain::{BlockStream, StreamError, codec::DEFAULT_BLOCK_BOUND};
use tenon_fuzz_targets::PEAK;

/// Counts memory.
#[global_allocator]
static COUNTED: peak_alloc::PeakAlloc = PEAK;

/// Maximum memory for a file of this length: a decoded block and its bytes.
const fn bound(length: usize) -> usize {
    (1 << 20) + 40 * length
}

/// splitmix64.
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }
}

/// The complete blocks at the start of a recorded chain, and the offset of each.
fn chain(name: &str) -> (Vec<u8>, Vec<usize>) {
    let file = tenon_test_data::unpacked(name);
    let mut stream = BlockStream::new(&file[..]);
    let (mut bytes, mut starts) = (Vec::new(), Vec::new());
    while bytes.len() < 60_000
        && let Some(block) = stream.next_encoded().unwrap()
    {
        starts.push(bytes.len());
        bytes.extend_from_slice(block);
    }
    (bytes, starts)
}

/// Result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Torn,
    NotABlock,
    /// Every block decodes; execution and consensus check the changed one.
    Decodes,
}

/// Reads a file to its end and checks the position in an error, given the offsets of the blocks before the damage.
fn read(bytes: &[u8], starts: &[usize]) -> (Ending, usize) {
    let before = PEAK.current_usage();
    PEAK.reset_peak_usage();
    let mut stream = BlockStream::new(bytes);
    let mut read = 0_u64;
    let ending = loop {
        match stream.next() {
            None => break Ending::Decodes,
            Some(Ok(_)) => read += 1,
            Some(Err(error)) => {
                let text = error.to_string();
                let (index, offset, ending) = match error {
                    StreamError::Truncated { index, offset } => (index, offset, Ending::Torn),
                    StreamError::Decode { index, offset, .. } => (index, offset, Ending::NotABlock),
                    StreamError::Io { .. } => panic!("{text}"),
                };
                assert_eq!(index, read, "{text}");
                if let Some(start) = starts.get(usize::try_from(index).unwrap()) {
                    assert_eq!(offset, *start as u64, "{text}");
                }
                assert!(text.contains(&format!("block {index}")) && text.contains(&format!("byte {offset}")), "{text}");
                break ending;
            }
        }
    };
    let taken = PEAK.peak_usage().saturating_sub(before);
    assert!(taken <= bound(bytes.len()), "{taken} bytes of memory for a file of {}", bytes.len());
    (ending, taken)
}

/// Nested lists.
fn nested(levels: usize) -> Vec<u8> {
    let (mut prefixes, mut length) = (vec![vec![0xc0]], 1_u32);
    for _ in 1..levels {
        let prefix = match u8::try_from(length) {
            Ok(short) if short < 56 => vec![0xc0 + short],
            _ => [&[0xfb][..], &length.to_be_bytes()].concat(),
        };
        length += u32::try_from(prefix.len()).unwrap();
        prefixes.push(prefix);
    }
    prefixes.reverse();
    prefixes.concat()
}

fn damaged(bytes: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut variant = bytes.to_vec();
    match random.below(10) {
        0 => variant.truncate(random.below(bytes.len())),
        // A length prefix that claims up to 2^64 bytes.
        1 => {
            let at = random.below(bytes.len() - 9);
            variant[at] = [0xbf, 0xff, 0xfb, 0xfa][random.below(4)];
            (1..9).for_each(|next| variant[at + next] = if random.below(2) == 0 { 0xff } else { variant[at + next] });
        }
        _ => {
            for _ in 0..=random.below(3) {
                let bit = random.below(bytes.len() * 8);
                variant[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
    variant
}

/// The blocks that begin at or before the first changed byte.
fn untouched<'a>(bytes: &[u8], variant: &[u8], starts: &'a [usize]) -> &'a [usize] {
    let changed = bytes.iter().zip(variant).position(|(one, other)| one != other).unwrap_or(variant.len());
    &starts[..starts.partition_point(|start| *start <= changed)]
}

// A single test, because memory is counted for the whole process.
#[test]
fn a_damaged_chain_file_names_its_block_and_offset_within_its_memory_bound() {
    let variants: usize = std::env::var("TENON_DAMAGED_FILES").map_or(10_000, |count| count.parse().unwrap());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    let seed =
        std::env::var("TENON_SEED").map_or(u64::try_from(now % (1 << 60)).unwrap(), |seed| seed.parse().unwrap());
    println!("TENON_SEED={seed}");
    let mut random = SplitMix64(seed);
    for name in ["execution-apis/chain.rlp.gz", "native/chains/v1switch.rlp.gz"] {
        let (bytes, starts) = chain(name);
        let (ending, mut max) = read(&bytes, &starts);
        assert_eq!(ending, Ending::Decodes);
        let mut endings = BTreeMap::<Ending, usize>::new();
        for _ in 0..variants / 2 {
            let variant = damaged(&bytes, &mut random);
            let (ending, taken) = read(&variant, untouched(&bytes, &variant, &starts));
            *endings.entry(ending).or_default() += 1;
            max = max.max(taken);
        }
        assert!(endings.len() == 3, "every ending should have been met: {endings:?}");
        Figure {
            clause: "input",
            what: &format!("the reader of chain files, {name}"),
            count: (variants / 2) as u64,
            figure: &format!(
                "{} blocks, {} bytes: {endings:?}; panics 0; block and byte named in all; {max} bytes of memory",
                starts.len(),
                bytes.len()
            ),
            bound: "no panic, 1 MiB and 40 times the length",
        }
        .record();
    }

    assert_eq!(read(&nested(200_000), &[0]).0, Ending::NotABlock);
    // Lengths beyond the limit of a block, and one that is just allowed but missing.
    for announced in [DEFAULT_BLOCK_BOUND + 1, u64::MAX] {
        let lie = [&[0xff][..], &announced.to_be_bytes()].concat();
        assert_eq!(read(&lie, &[0]).0, Ending::NotABlock);
    }
    let patient = [&[0xfb][..], &0x03ff_0000_u32.to_be_bytes(), &[0; 100]].concat();
    assert_eq!(read(&patient, &[0]).0, Ending::Torn);
}
