//! A plugin's most frequent requests, typed: blocks, state, logs, calls.

use std::{future::Future, sync::Arc};

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{
    Account, BlockId, BlockNumber, Failure, Head, LocatedLog, LogFilter, Request,
    messages::{
        BlockOverrides, BlockReceipts, Call, CallRequest, ChainChanges, ChainInfo, GetAccount, GetBlock,
        GetBlockReceipts, GetChainChanges, GetChainInfo, GetCode, GetHead, GetHeadNumber, GetHeader, GetLogs,
        GetReceipt, GetStorage, GetTransaction, LocatedReceipt, LocatedTransaction, LogRange, StoredBlock,
        StoredHeader, SubmitTransaction,
    },
};

use crate::{Context, Host, Storage};

/// Questions to the node, for a [`Context`] (in the caller's name: its deadline applies) and for a [`Host`] (in the
/// plugin's own). Every one is a message of `tenon_sdk::api::messages`; those that have no function here are sent with
/// `call`.
///
/// A block is named by its number, hash or tag: whatever turns into a [`BlockId`]. All errors are the node's own words; a
/// plugin that was not granted the capability hears which one.
///
/// ```
/// use tenon_sdk::{prelude::*, testing::{Chain, TestBlock}};
///
/// /// What an account had, and has.
/// async fn gain(context: Context<()>, who: Address, since: u64) -> Result<U256, Failure> {
///     let before = context.account(who, BlockNumber(since)).await?.balance;
///     let now = context.account(who, BlockTag::Latest).await?.balance;
///     Ok(now.saturating_sub(before))
/// }
///
/// let (chain, who) = (Chain::new(), Address::repeat_byte(7));
/// chain.add(TestBlock::new().balance(who, U256::from(10)));
/// chain.add(TestBlock::new().balance(who, U256::from(25)));
/// assert_eq!(chain.run(gain(chain.context(()), who, 1)), Ok(U256::from(15)));
/// ```
pub trait Node: Sync {
    /// Sends any message.
    ///
    /// # Errors
    /// The answering module's error.
    fn ask<R: Request>(&self, request: R) -> impl Future<Output = Result<R::Reply, Failure>> + Send;

    /// Records of the plugin's own.
    fn storage(&self) -> Storage;

    /// The head of the canonical chain: one immutable value, so that number and hash belong together.
    ///
    /// # Errors
    /// When the plugin was not granted `ReadChain`, or the database fails; so for all that reads the chain.
    fn head(&self) -> impl Future<Output = Result<Arc<Head>, Failure>> + Send {
        self.ask(GetHead)
    }

    /// The height of the head; cheaper than [`Node::head`].
    ///
    /// # Errors
    /// As [`Node::head`].
    fn head_number(&self) -> impl Future<Output = Result<BlockNumber, Failure>> + Send {
        self.ask(GetHeadNumber)
    }

    /// Chain id, genesis hash and kind of chain.
    ///
    /// # Errors
    /// As [`Node::head`].
    fn chain_info(&self) -> impl Future<Output = Result<Arc<ChainInfo>, Failure>> + Send {
        self.ask(GetChainInfo)
    }

    /// A header; none when the block is unknown.
    ///
    /// # Errors
    /// As [`Node::head`].
    fn header(&self, block: impl Into<BlockId>) -> impl Future<Output = Result<Option<StoredHeader>, Failure>> + Send {
        self.ask(GetHeader { block: block.into() })
    }

    /// A block with its transactions and their senders.
    ///
    /// # Errors
    /// As [`Node::head`].
    fn block(&self, block: impl Into<BlockId>) -> impl Future<Output = Result<Option<StoredBlock>, Failure>> + Send {
        self.ask(GetBlock { block: block.into() })
    }

    /// A block with its receipts and their logs.
    ///
    /// # Errors
    /// As [`Node::head`].
    fn receipts(
        &self,
        block: impl Into<BlockId>,
    ) -> impl Future<Output = Result<Option<BlockReceipts>, Failure>> + Send {
        self.ask(GetBlockReceipts { block: block.into() })
    }

    /// A transaction of the canonical chain, with its place.
    ///
    /// # Errors
    /// As [`Node::head`].
    fn transaction(&self, hash: B256) -> impl Future<Output = Result<Option<LocatedTransaction>, Failure>> + Send {
        self.ask(GetTransaction { hash })
    }

    /// The receipt of a transaction of the canonical chain.
    ///
    /// # Errors
    /// As [`Node::head`].
    fn receipt(&self, hash: B256) -> impl Future<Output = Result<Option<LocatedReceipt>, Failure>> + Send {
        self.ask(GetReceipt { hash })
    }

    /// Logs of the canonical blocks `from` to `to`, both included, answered from the log index.
    ///
    /// ```
    /// # use tenon_sdk::{prelude::*, testing::{Chain, TestBlock}};
    /// # let (chain, token, topic) = (Chain::new(), Address::repeat_byte(1), B256::repeat_byte(2));
    /// # chain.add(TestBlock::new().log(token, &[topic], b""));
    /// # let node = chain.host();
    /// # let run = async move {
    /// let wanted = LogFilter { addresses: vec![token], topics: vec![vec![topic]] };
    /// let logs = node.logs(0, 100, wanted).await?;
    /// # assert_eq!(logs.len(), 1);
    /// # Ok::<_, Failure>(())
    /// # };
    /// # chain.run(run).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Node::head`]; when there are more logs than the node gives in one answer.
    fn logs(
        &self,
        from: u64,
        to: u64,
        filter: LogFilter,
    ) -> impl Future<Output = Result<Vec<LocatedLog>, Failure>> + Send {
        self.ask(GetLogs { range: LogRange::Numbers { from: BlockNumber(from), to: BlockNumber(to) }, filter })
    }

    /// Logs of one block of any branch.
    ///
    /// # Errors
    /// As [`Node::head`].
    fn logs_of_block(
        &self,
        hash: B256,
        filter: LogFilter,
    ) -> impl Future<Output = Result<Vec<LocatedLog>, Failure>> + Send {
        self.ask(GetLogs { range: LogRange::Block(hash), filter })
    }

    /// Blocks that left and joined the canonical chain since a block that was on it once; at most `limit` that joined.
    ///
    /// # Errors
    /// As [`Node::head`]; when the block is unknown.
    fn changes_since(&self, block: B256, limit: u64) -> impl Future<Output = Result<ChainChanges, Failure>> + Send {
        self.ask(GetChainChanges { since: block, limit })
    }

    /// An account after a block: balance, nonce, code hash. The default one when it does not exist.
    ///
    /// # Errors
    /// As [`Node::head`]; when the state of the block has been pruned.
    fn account(
        &self,
        address: Address,
        block: impl Into<BlockId>,
    ) -> impl Future<Output = Result<Account, Failure>> + Send {
        self.ask(GetAccount { address, block: block.into() })
    }

    /// An account's code after a block; empty when it has none.
    ///
    /// # Errors
    /// As [`Node::account`].
    fn code(&self, address: Address, block: impl Into<BlockId>) -> impl Future<Output = Result<Bytes, Failure>> + Send {
        self.ask(GetCode { address, block: block.into() })
    }

    /// A slot of an account's storage after a block; zero when it is not set.
    ///
    /// # Errors
    /// As [`Node::account`].
    fn slot(
        &self,
        address: Address,
        slot: B256,
        block: impl Into<BlockId>,
    ) -> impl Future<Output = Result<U256, Failure>> + Send {
        self.ask(GetStorage { address, slot, block: block.into() })
    }

    /// Calls a contract on the state after a block (`eth_call`), and gives what it returns. Needs `CallEvm`; a method that
    /// does it is a [`slow_method`](crate::Table::slow_method).
    ///
    /// ```
    /// # use tenon_sdk::{prelude::*, testing::Chain};
    /// # use tenon_sdk::api::messages::Call;
    /// # let chain = Chain::new().answer(|_: Call| Ok(Bytes::from(U256::from(5).to_be_bytes_vec())));
    /// # let (node, token) = (chain.host(), Address::ZERO);
    /// # let run = async move {
    /// let total_supply = Bytes::copy_from_slice(&keccak256("totalSupply()")[..4]);
    /// let answer = node.call_contract(token, total_supply, BlockTag::Latest).await?;
    /// let supply = U256::from_be_slice(&answer);
    /// # assert_eq!(supply, U256::from(5));
    /// # Ok::<_, Failure>(())
    /// # };
    /// # chain.run(run).unwrap();
    /// ```
    ///
    /// # Errors
    /// Code 3 with the return data if the contract reverts; otherwise the EVM's error.
    fn call_contract(
        &self,
        to: Address,
        input: Bytes,
        block: impl Into<BlockId>,
    ) -> impl Future<Output = Result<Bytes, Failure>> + Send {
        let request = CallRequest { to: Some(to), input, ..CallRequest::default() };
        let (state_overrides, block_overrides) = (Vec::new(), BlockOverrides::default());
        self.ask(Call { request, block: block.into(), state_overrides, block_overrides })
    }

    /// Hands a signed transaction to the pool, and gives its hash. Needs `SubmitTransactions`.
    ///
    /// # Errors
    /// Why the pool does not take it.
    fn submit(&self, raw: Bytes) -> impl Future<Output = Result<B256, Failure>> + Send {
        self.ask(SubmitTransaction { raw })
    }
}

impl Node for Host {
    fn ask<R: Request>(&self, request: R) -> impl Future<Output = Result<R::Reply, Failure>> + Send {
        self.call(request)
    }

    fn storage(&self) -> Storage {
        Storage::new(self.clone())
    }
}

impl<S: Send + Sync> Node for Context<S> {
    fn ask<R: Request>(&self, request: R) -> impl Future<Output = Result<R::Reply, Failure>> + Send {
        self.call(request)
    }

    fn storage(&self) -> Storage {
        Storage::new(self.host().clone())
    }
}
