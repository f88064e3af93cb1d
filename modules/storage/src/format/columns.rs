//! The column families: their contents and their tuning.
//!
//! All columns share one write-ahead log, and one LRU cache for data blocks, indices and filters, so that one number
//! bounds memory for a chain of any size. All have bloom filters of 10 bits per key, with which a miss costs 0.7 µs
//! instead of 4. The differences depend on how a column is used:
//!
//! - *Point reads of small records* use blocks of 4 KiB: less to decompress for one record than with 16 KiB.
//! - *Large records and range scans* use blocks of 16 KiB, which compress better.
//! - *Versions of a key* have a prefix extractor of the key's length: a seek checks the prefix bloom filter and skips
//!   files without the key.
//! - *Random keys with incompressible values* are not compressed; all others use lz4 on the upper levels, and large
//!   cold columns zstd on the last one. Dictionaries for zstd do not pay: on a chain like the main network's they saved
//!   1.5 % of the bytes, and cost 13 % of the import and 40 MB.

use rocksdb::{BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, Options, SliceTransform};
use strum::{IntoStaticStr, VariantArray};

use crate::format::keys::{ACCOUNT_KEY_LENGTH, LOG_INDEX_PREFIX_LENGTH, SLOT_KEY_LENGTH};

/// One column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Column {
    /// Format version, chain, head, finality, oldest kept state.
    Meta,
    /// number ‖ hash → total difficulty ‖ header RLP, of every branch.
    Headers,
    /// hash → number, of every branch.
    HeaderNumbers,
    /// number → hash ‖ time of the canonical block.
    Canonical,
    /// number ‖ hash → senders and the block's RLP without its header, of every branch.
    Bodies,
    /// number ‖ hash → receipts without their logs, of canonical blocks; under keys one byte longer, records of side
    /// blocks.
    Receipts,
    /// number ‖ position in the block → log, of canonical blocks.
    Logs,
    /// kind ‖ value ‖ number → positions in the block of the logs with this address or topic.
    LogIndex,
    /// transaction hash → number ‖ position, of canonical blocks; transaction hash ‖ number → its earlier position, if
    /// it occurs again in this block.
    Transactions,
    /// address → block of the last change ‖ account.
    AccountLatest,
    /// address ‖ slot → block of the last change ‖ value.
    SlotLatest,
    /// address ‖ !block → account after that block.
    AccountHistory,
    /// address ‖ slot ‖ !block → value after that block.
    SlotHistory,
    /// code hash → code.
    Codes,
    /// owner ‖ path ‖ hash → block of creation ‖ node RLP: the nodes of the newest states, see `write::thin`.
    Trie,
    /// owner ‖ path ‖ hash → node RLP: nodes of checkpoint heights that have left `Trie`.
    TrieCheckpoints,
    /// number → keys changed by the block: accounts, slots, and while its parent's state is whole in `Trie`, superseded
    /// trie nodes.
    Changes,
    /// Spaces of plugins; for the keys see `space::keys`. Releases that do not know the column ignore it, so it needed
    /// no new format.
    Spaces,
}

/// Size of the blocks of columns that are read record by record, bytes.
const POINT: usize = 4 << 10;

/// The way a column is read, which decides how it is stored.
#[derive(Clone, Copy)]
struct Shape {
    block_bytes: usize,
    prefix: Option<usize>,
    upper: DBCompressionType,
    last: DBCompressionType,
    /// Size of a memory table before it is flushed: large for columns that every block writes much to.
    write_buffer_bytes: usize,
}

impl Column {
    /// Every column, in the order in which they are created.
    pub(crate) const ALL: &[Self] = Self::VARIANTS;

    /// The name on disk; never changes.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    fn shape(self) -> Shape {
        use DBCompressionType::{Lz4, None, Zstd};
        const BULK: usize = 16 << 10;
        const SMALL: usize = 8 << 20;
        const LARGE: usize = 32 << 20;
        let shape = |block_bytes, prefix, upper, last, write_buffer_bytes| Shape {
            block_bytes,
            prefix,
            upper,
            last,
            write_buffer_bytes,
        };
        match self {
            Self::Meta => shape(POINT, Option::None, None, None, 1 << 20),
            Self::Headers => shape(POINT, Option::None, Lz4, Zstd, SMALL),
            // Keys are hashes, which do not compress; it is read before every look-up by hash.
            Self::HeaderNumbers | Self::Transactions => shape(POINT, Option::None, None, None, SMALL),
            Self::Canonical => shape(POINT, Option::None, None, None, SMALL),
            Self::Bodies | Self::Receipts | Self::Logs => shape(BULK, Option::None, Lz4, Zstd, LARGE),
            Self::Changes => shape(BULK, Option::None, Lz4, Zstd, SMALL),
            // A query walks the blocks of one value; blocks of 4 KiB keep the jumps of an intersection cheap.
            Self::LogIndex => shape(POINT, Some(LOG_INDEX_PREFIX_LENGTH), Lz4, Zstd, LARGE),
            Self::AccountLatest => shape(POINT, Option::None, Lz4, Lz4, LARGE),
            // Read by whole key; the prefix is used to wipe an account, which walks its slots.
            Self::SlotLatest => shape(POINT, Some(ACCOUNT_KEY_LENGTH), Lz4, Lz4, LARGE),
            Self::AccountHistory => shape(POINT, Some(ACCOUNT_KEY_LENGTH), Lz4, Zstd, LARGE),
            Self::SlotHistory => shape(POINT, Some(SLOT_KEY_LENGTH), Lz4, Zstd, LARGE),
            Self::Codes => shape(BULK, Option::None, Lz4, Zstd, SMALL),
            // Records of plugins: presumably point reads and scans of small records.
            Self::Spaces => shape(POINT, Option::None, Lz4, Lz4, SMALL),
            // Branch nodes are hashes; the leaves of plain accounts compress to half.
            Self::Trie => shape(POINT, Option::None, Lz4, Lz4, LARGE),
            // Read only for proofs of old blocks.
            Self::TrieCheckpoints => shape(BULK, Option::None, Lz4, Zstd, SMALL),
        }
    }

    /// The options with which this column is opened.
    pub(crate) fn options(self, cache: &Cache) -> Options {
        let shape = self.shape();
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(cache);
        table.set_block_size(shape.block_bytes);
        table.set_bloom_filter(10.0, false);
        // Inside the cache, otherwise their memory would grow with the chain; pinned for the newest files only.
        table.set_cache_index_and_filter_blocks(true);
        table.set_cache_index_and_filter_blocks_with_high_priority(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        table.set_optimize_filters_for_memory(true);
        // Indices and filters in parts of one block each. Those of a file of a million keys take a megabyte or two; if
        // the cache is smaller than the chain, they would be read and decompressed again for single records.
        table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_partition_filters(true);
        table.set_metadata_block_size(POINT);
        table.set_pin_top_level_index_and_filter(true);

        let mut options = Options::default();
        options.set_block_based_table_factory(&table);
        options.set_compression_type(shape.upper);
        options.set_bottommost_compression_type(shape.last);
        options.set_write_buffer_size(shape.write_buffer_bytes);
        options.set_max_write_buffer_number(3);
        options.set_level_compaction_dynamic_level_bytes(true);
        if let Some(length) = shape.prefix {
            options.set_prefix_extractor(SliceTransform::create_fixed_prefix(length));
            options.set_memtable_prefix_bloom_ratio(0.05);
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::Column;
    use crate::full_disk::SPACE_TO_WRITE;

    #[test]
    fn the_space_that_errors_of_a_full_disk_ask_for_holds_every_memory_table() {
        for column in Column::ALL {
            assert!(column.shape().write_buffer_bytes <= SPACE_TO_WRITE, "{}", column.name());
        }
    }
}
