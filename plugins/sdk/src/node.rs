//! A plugin's most frequent requests as typed functions: blocks, state, logs, calls.

use std::{future::Future, sync::Arc};

use crate::Failure;
use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{
    Account, BlockId, BlockNumber, Head, LocatedLog, LogFilter, Request,
    messages::{
        BlockOverrides, BlockReceipts, Call, CallRequest, ChainChanges, ChainInfo, GetAccount, GetBlock,
        GetBlockReceipts, GetChainChanges, GetChainInfo, GetCode, GetHead, GetHeadNumber, GetHeader, GetLogs,
        GetReceipt, GetStorage, GetTransaction, LocatedReceipt, LocatedTransaction, LogRange, StoredBlock,
        StoredHeader, SubmitTransaction,
    },
};

use crate::{Context, Host, Storage, error_texts::RefusableAnswer as _};

/// Requests to the node, from a [`Context`] (on the caller's behalf: its deadline applies) or a [`Host`] (on the
/// plugin's own). Each is a message of `tenon_sdk::api::messages`; send messages without a function here with `call`.
///
/// A block is given by its number, hash or tag: anything that converts into a [`BlockId`]. All errors are the node's
/// own; the error for a capability that was not granted names it.
///
/// ```
/// use tenon_sdk::{prelude::*, testing::{Chain, TestBlock}};
///
/// /// How much an account's balance grew since a block.
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

    /// The plugin's own records.
    fn storage(&self) -> Storage;

    /// The head of the canonical chain: one immutable value, so that number and hash are consistent.
    ///
    /// # Errors
    /// If the plugin was not granted `ReadChain`, or the database fails. The same applies to every function that reads
    /// the chain.
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

    /// A header; `None` if the block is unknown.
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

    /// A transaction of the canonical chain, with its position.
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
    /// As [`Node::head`]; if there are more logs than the node returns in one reply.
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

    /// Blocks that left and joined the canonical chain since a block that was once canonical, with at most `limit`
    /// added ones.
    ///
    /// # Errors
    /// As [`Node::head`]; if the block is unknown.
    fn changes_since(&self, block: B256, limit: u64) -> impl Future<Output = Result<ChainChanges, Failure>> + Send {
        self.ask(GetChainChanges { since: block, limit })
    }

    /// An account after a block: balance, nonce, code hash. The default account if it does not exist.
    ///
    /// # Errors
    /// As [`Node::head`]; if the state of the block has been pruned.
    fn account(
        &self,
        address: Address,
        block: impl Into<BlockId>,
    ) -> impl Future<Output = Result<Account, Failure>> + Send {
        self.ask(GetAccount { address, block: block.into() })
    }

    /// An account's code after a block; empty if it has none.
    ///
    /// # Errors
    /// As [`Node::account`].
    fn code(&self, address: Address, block: impl Into<BlockId>) -> impl Future<Output = Result<Bytes, Failure>> + Send {
        self.ask(GetCode { address, block: block.into() })
    }

    /// A slot of an account's storage after a block; zero if it is not set.
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

    /// Calls a contract on the state after a block (`eth_call`) and returns its return data. Needs `CallEvm`; a method
    /// that calls this is a [`slow_method`](crate::Table::slow_method).
    ///
    /// ```
    /// # use tenon_sdk::{prelude::*, testing::Chain};
    /// # use tenon_sdk::api::messages::Call;
    /// # let chain = Chain::new().answer(|_: Call| Ok(Ok(Bytes::from(U256::from(5).to_be_bytes_vec()))));
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
        let answer = self.ask(Call { request, block: block.into(), state_overrides, block_overrides });
        async { answer.await.or_failure() }
    }

    /// Submits a signed transaction to the pool and returns its hash. Needs `SubmitTransactions`.
    ///
    /// # Errors
    /// The pool's reason for refusing it.
    fn submit(&self, raw: Bytes) -> impl Future<Output = Result<B256, Failure>> + Send {
        let answer = self.ask(SubmitTransaction { raw });
        async { answer.await.or_failure() }
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
