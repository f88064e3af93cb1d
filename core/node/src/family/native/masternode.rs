//! The masternode of a native network that has only one.

use std::sync::Arc;
use std::time::Duration;

use tenon_api::{Bytes, ChainReader as _, ConsensusEngine, Header};
use tenon_chain::ChainSpec;
use tenon_consensus::{SealMode, SealerOptions};
use tenon_native_consensus::{NativeEngine, SigningTransactionBuilder, v1_masternodes};
use tenon_storage::Store;

use super::records;
use crate::exit::Stop;
use crate::sealing::{OneMasternode, WalletSigner};

/// Interval between a masternode's blocks if its rules define none.
const DEFAULT_BLOCK_INTERVAL: Duration = Duration::from_secs(2);

/// The masternode of a chain that has had exactly one since its genesis; `None` for others.
///
/// # Errors
/// [`Stop`] if the chain can't be read.
pub(super) fn one_masternode(
    spec: &Arc<ChainSpec>,
    store: &Arc<Store>,
    genesis: &Header,
) -> Result<Option<OneMasternode>, Stop> {
    let [account] = v1_masternodes(&genesis.extra_data)[..] else { return Ok(None) };
    let signer = Arc::new(WalletSigner::unopened(account));
    let engine = NativeEngine::keeping(spec, records(store)).map_err(Stop::failure)?;
    let engine: Arc<dyn ConsensusEngine> = Arc::new(engine.sealing_with(Arc::clone(&signer) as _));
    let transactions = SigningTransactionBuilder::new(Arc::clone(&signer) as _, spec.chain_id);
    let head = store.head();
    let sealer = SealerOptions {
        mode: SealMode::Interval(engine.min_block_interval(&head.header).unwrap_or(DEFAULT_BLOCK_INTERVAL)),
        beneficiary: account,
        gas_limit: head.header.gas_limit,
        extra_data: Bytes::new(),
        transaction_source: Some(Arc::new(transactions)),
        makes_first_block_at_once: false,
    };
    Ok(Some(OneMasternode::new(signer, sealer, engine)))
}
