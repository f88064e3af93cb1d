//! Tests of log queries while the chain changes.

use alloy_primitives::{Address, Bytes, U256};
use tempfile::TempDir;
use tenon_api::{
    Block, BlockCommit, EMPTY_OMMERS_HASH, EMPTY_ROOT_HASH, Header, Log, Receipt, ReceiptOutcome, RecoveredBlock,
    Transaction, TransactionPayload, TransactionSignature, TransactionType,
    messages::{ChainInfo, Profile},
};
use tenon_chain::{ChainSpec, Fork};

use super::*;
use crate::{StoreLimits, StoreOptions};

const CHAIN_ID: u64 = 31_337;

/// A chain of blocks with one log each, which names their branch; all of them are in memory.
struct Chain {
    answers: Answers,
    _folder: TempDir,
}

impl Chain {
    fn of(blocks: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), StoreOptions::for_tests()).unwrap();
        let genesis = commit(0, B256::ZERO, b"old");
        store.initialise(&genesis, CHAIN_ID).unwrap();
        let info = ChainInfo {
            chain_id: CHAIN_ID,
            network_id: CHAIN_ID,
            genesis_hash: genesis.block.hash(),
            profile: Profile::Ethereum,
        };
        let answers = Answers {
            store,
            spec: ChainSpec::ethereum_at(CHAIN_ID, Fork::Berlin).into(),
            info: info.into(),
            limits: StoreLimits::new(20_000, u64::MAX),
            memory: tenon_bus::MemoryBudget::unbounded(),
            requested_blocks: RequestedBlocks::default(),
        };
        let chain = Self { answers, _folder: folder };
        chain.grow(blocks, b"old");
        chain
    }

    fn grow(&self, blocks: u64, branch: &'static [u8]) {
        for _ in 0..blocks {
            let head = self.answers.store.head();
            let next = commit(head.header.number + 1, head.header.hash(), branch);
            self.answers.store.commit_next(&next).unwrap();
        }
    }

    /// Replaces the blocks above `ancestor` by as many of another branch.
    fn reorganise(&self, ancestor: u64) {
        let removed = self.answers.store.head_number() - ancestor;
        self.answers.store.unwind_to(BlockNumber(ancestor)).unwrap();
        self.grow(removed, b"new");
    }
}

/// A block with one log; roots are not checked here.
fn commit(number: u64, parent_hash: B256, branch: &'static [u8]) -> BlockCommit {
    let mut transaction = Transaction {
        hash: B256::ZERO,
        chain_id: None,
        nonce: number,
        gas_limit: 21_000,
        to: Some(Address::ZERO),
        value: U256::ZERO,
        input: Bytes::from_static(branch),
        payload: TransactionPayload::Legacy { gas_price: U256::from(1) },
        signature: TransactionSignature { v: 27, r: U256::from(1), s: U256::from(1) },
    };
    transaction.hash = tenon_chain::transaction_hash(&transaction);
    let log = Log { address: Address::ZERO, topics: Vec::new(), data: Bytes::from_static(branch) };
    let receipt = Receipt {
        transaction_type: TransactionType::Legacy,
        outcome: ReceiptOutcome::Status(true),
        cumulative_gas_used: 21_000,
        gas_used: 21_000,
        logs: vec![log],
    };
    let header = Header {
        number,
        parent_hash,
        ommers_hash: EMPTY_OMMERS_HASH,
        state_root: EMPTY_ROOT_HASH,
        extra_data: Bytes::from_static(branch),
        ..Header::default()
    };
    let block = Block {
        header: tenon_chain::seal(header),
        transactions: vec![transaction.into()],
        ommers: Vec::new(),
        withdrawals: None,
        size: 0,
    };
    BlockCommit {
        block: RecoveredBlock { block, senders: vec![Address::ZERO] }.into(),
        total_difficulty: U256::ZERO,
        receipts: vec![receipt].into(),
        accounts: Vec::new(),
        codes: Vec::new(),
        trie_nodes: Vec::new(),
        superseded_trie_nodes: Vec::new(),
    }
}

fn branches(logs: &[LocatedLog]) -> Vec<&[u8]> {
    logs.iter().map(|located| located.log.data.as_ref()).collect()
}

/// Reads blocks 3 to 5 of six from memory, changing the chain before block 4 is looked up. Returns whether the result
/// is valid, and its branches.
fn read_while(chain: &Chain, change: impl Fn(&Chain)) -> (bool, Vec<LocatedLog>) {
    let filter = LogFilter::default();
    let mut found = Found { store: &chain.answers.store, filter: &filter, logs: Vec::new(), left: CACHED_LOGS };
    let numbers = (3..=5).inspect(|number| {
        if *number == 4 {
            change(chain);
        }
    });
    let is_whole = found.add_canonical(numbers, 5);
    (is_whole, found.logs)
}

#[test]
fn a_range_replaced_during_a_read_from_memory_is_searched_instead() {
    for (ancestor, expected) in [(2, [b"new"; 3]), (3, [b"old", b"new", b"new"]), (4, [b"old", b"old", b"new"])] {
        let chain = Chain::of(6);

        let (is_whole, read) = read_while(&chain, |chain| chain.reorganise(ancestor));

        assert_eq!(read.len(), 3, "every block was in memory, of one branch or the other");
        assert!(!is_whole, "blocks above {ancestor} were replaced; read were {:?}", branches(&read));
        let numbers = LogRange::Numbers { from: BlockNumber(3), to: BlockNumber(5) };
        let request = GetLogs { range: numbers, filter: LogFilter::default() };
        let answer = chain.answers.logs(&request, &CallContext::new()).unwrap();
        assert_eq!(branches(&answer), expected);
        assert_eq!(chain.answers.search(&request, 3, &|| false), Ok(answer), "as the index says");
    }
}

#[test]
fn a_range_unwound_during_a_read_from_memory_is_not_answered_from_it() {
    let chain = Chain::of(6);

    let (is_whole, read) = read_while(&chain, |chain| chain.answers.store.unwind_to(BlockNumber(4)).unwrap());

    assert!(!is_whole, "{:?}", branches(&read));
}

#[test]
fn changes_above_a_range_do_not_invalidate_it() {
    let changes: [&dyn Fn(&Chain); 3] = [&|chain| chain.reorganise(5), &|chain| chain.grow(1, b"new"), &|_| {}];
    for change in changes {
        let (is_whole, read) = read_while(&Chain::of(6), change);

        assert!(is_whole);
        assert_eq!(branches(&read), [b"old"; 3]);
    }
}
