//! Native development networks: genesis, engine, masternode.

use std::fmt::Write as _;
use std::sync::Arc;

use tenon_accounts::Accounts;
use tenon_api::{Address, BlockSigner, ConsensusEngine, EngineRecords, Header, U256};
use tenon_chain::ChainSpec;
use tenon_config::{DevProfile, Resolved, Settings};
use tenon_native_consensus::{ContractCandidates, NativeEngine, SigningTransactionBuilder, v1_masternodes};
use tenon_native_spec::{DevelopmentEngine, NATIVE_DEVELOPMENT_CHAIN, NativeDevelopment, NativeSettings};
use tenon_storage::Store;

use crate::exit::Stop;
use crate::family::development_maker::{Development, DevelopmentMasternode};

/// Coins paid per epoch.
const REWARD: u64 = 250;

/// Checks the settings that have another meaning on a native network.
pub(in crate::family) fn check(resolved: &Resolved) -> Result<(), Stop> {
    let dev = &resolved.settings.dev;
    if resolved.is_chosen("dev.chain-id") && dev.chain_id != NATIVE_DEVELOPMENT_CHAIN {
        return Err(Stop::Usage(format!(
            "dev.chain-id ({}): a native development network has chain id {NATIVE_DEVELOPMENT_CHAIN}, for which all \
             native rules hold from the first block; leave the setting out",
            resolved.origin("dev.chain-id")
        )));
    }
    if dev.profile == DevProfile::NativeV1 && resolved.is_chosen("dev.epoch") {
        let origin = resolved.origin("dev.epoch");
        return Err(Stop::Usage(format!(
            "dev.epoch ({origin}): epochs of engine v1 have 900 blocks; leave the setting \
            out"
        )));
    }
    Ok(())
}

/// The maker of blocks of the native network in this folder.
///
/// # Errors
/// [`Stop::DataFolder`] if the folder has a network of another mnemonic.
pub(super) fn open(
    settings: &Settings,
    (spec, native): (&Arc<ChainSpec>, &NativeSettings),
    store: &Arc<Store>,
    genesis: &Header,
) -> Result<Development, Stop> {
    let masternode = Masternode::of(settings)?;
    masternode.check_network(spec, genesis)?;
    let engine = masternode.engine(spec, store)?;
    let signer = Arc::clone(&masternode.signer);
    let masternode = DevelopmentMasternode {
        address: masternode.address(),
        transaction_source: Arc::new(SigningTransactionBuilder::new(signer, NATIVE_DEVELOPMENT_CHAIN)),
        about: masternode.banner(native, settings.dev.mnemonic.is_well_known()),
    };
    Ok(Development { engine, masternode: Some(masternode) })
}

/// The block producer, its owner, and the foundation: keys derived from the mnemonic.
struct Masternode {
    accounts: Accounts,
    signer: Arc<dyn BlockSigner>,
    owner: Address,
    foundation: Address,
}

impl Masternode {
    /// The masternode of a mnemonic.
    fn of(settings: &Settings) -> Result<Self, Stop> {
        let accounts = Accounts::masternode_from_mnemonic(&settings.dev.mnemonic, NATIVE_DEVELOPMENT_CHAIN)
            .map_err(|error| Stop::Usage(format!("dev.mnemonic: {error}")))?;
        let addresses = accounts.addresses();
        let [masternode, owner, foundation] = addresses[..] else {
            return Err(Stop::Failure("the masternode's keys could not be derived".into()));
        };
        let signer = accounts.block_signer(masternode);
        let signer = signer.ok_or_else(|| Stop::Failure("the masternode's key could not be derived".into()))?;
        Ok(Self { accounts, signer, owner, foundation })
    }

    fn address(&self) -> Address {
        self.signer.address()
    }

    /// The engine that makes its blocks. It keeps the candidates of gap blocks in the database, so that it can continue
    /// after a restart even if their state has been pruned by then (`docs/spec/consensus.md` 17).
    ///
    /// It keeps no record of its votes. As the only masternode, it votes only for the newest block of its own database,
    /// and that vote is part of the next block. A block becomes visible only after the database has it. So if the
    /// process is killed between signing and storing a block, nothing has seen the block, and its round can be used
    /// again. `database.durability` says what a power failure may undo.
    ///
    /// Blocks made in quick succession get timestamps in the future, as on the Ethereum profile. This engine's clock
    /// always returns the maximum time, so that it refuses no block as too early.
    fn engine(&self, spec: &Arc<ChainSpec>, store: &Arc<Store>) -> Result<Arc<dyn ConsensusEngine>, Stop> {
        let records = Arc::clone(store) as Arc<dyn EngineRecords>;
        let clock = Arc::new(|| u64::MAX);
        let engine = NativeEngine::with_records_and_source(spec, Arc::new(ContractCandidates), clock, records);
        let engine = engine.map_err(|error| Stop::DataFolder(error.to_string()))?;
        Ok(Arc::new(engine.sealing_with(Arc::clone(&self.signer))))
    }

    /// Refuses a chain of other masternodes: this node could make no block for it.
    fn check_network(&self, spec: &ChainSpec, genesis: &Header) -> Result<(), Stop> {
        if spec.chain_id == NATIVE_DEVELOPMENT_CHAIN && v1_masternodes(&genesis.extra_data) == [self.address()] {
            return Ok(());
        }
        Err(Stop::DataFolder(
            "the data folder has no native development network of this mnemonic; give the dev.mnemonic with which it \
             was created, or choose another --datadir"
                .into(),
        ))
    }

    /// Lines of the banner, with the keys only if they are publicly known.
    fn banner(&self, native: &NativeSettings, shows_keys: bool) -> String {
        let mut text = String::from("\nMasternode, its owner (fees and rewards), and the foundation\n");
        if shows_keys {
            for account in self.accounts.reveal() {
                let _ = writeln!(text, "  {}  {}", account.address, *account.secret_key);
            }
        } else {
            self.accounts.addresses().iter().for_each(|address| {
                let _ = writeln!(text, "  {address}");
            });
        }
        let consensus = &native.consensus;
        let engine = if consensus.switch_block == 0 { "v2" } else { "v1" };
        let _ = writeln!(text, "\nEngine       {engine}, epochs of {}", consensus.epoch);
        let _ = writeln!(text, "Contracts    validator 0x…88, block signer 0x…89, randomize 0x…90");
        let _ = writeln!(text, "             token issuer {}", native.contracts.trc21_issuer);
        text
    }
}

/// The genesis that the settings describe.
pub(in crate::family) fn genesis(settings: &Settings, accounts: &Accounts, balance: U256) -> Result<Vec<u8>, Stop> {
    let dev = &settings.dev;
    let masternode = Masternode::of(settings)?;
    let engine = match dev.profile {
        DevProfile::NativeV1 => DevelopmentEngine::V1,
        _ => DevelopmentEngine::V2 { epoch: dev.epoch },
    };
    let network = NativeDevelopment {
        engine,
        gas_limit: dev.gas_limit,
        masternode: masternode.address(),
        owner: masternode.owner,
        foundation: masternode.foundation,
        reward: REWARD,
        accounts: accounts.addresses(),
        balance,
    };
    network.to_json().map_err(Stop::failure)
}
