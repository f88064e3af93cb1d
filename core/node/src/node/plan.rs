//! What a node is started with.

use std::sync::Arc;

use tenon_accounts::Accounts;
use tenon_api::ConsensusEngine;
use tenon_config::{NamespaceNames, Settings};
use tenon_consensus::SealerOptions;

use crate::data_folder::DataFolder;
use crate::opened_chain::OpenedChain;
use crate::reload::SettingsSource;
use crate::sealing::OneMasternode;

/// Everything needed to start a node.
pub(crate) struct NodePlan {
    /// The settings.
    pub(crate) settings: Settings,
    /// The node's role besides serving.
    pub(crate) role: Role,
    /// The source from which the settings are read again.
    pub(crate) source: SettingsSource,
    /// The consensus engine.
    pub(crate) engine: Arc<dyn ConsensusEngine>,
    /// The chain, which is in the folder. Declared before it, so that a failed start closes the database before an
    /// ephemeral folder is removed.
    pub(crate) chain: OpenedChain,
    /// The data folder.
    pub(crate) folder: DataFolder,
}

impl NodePlan {
    /// Whether the node makes a development network.
    pub(super) const fn is_development(&self) -> bool {
        matches!(self.role, Role::Develop { .. })
    }

    /// The names under which namespaces are served on this chain.
    pub(super) fn namespace_names(&self) -> NamespaceNames {
        self.chain.family.namespace_names(self.settings.rpc.aliases)
    }
}

/// The role of a node besides serving.
pub(crate) enum Role {
    /// None. On a native network with one masternode it makes blocks once requested, if it has the account.
    Follow {
        /// The masternode of such a network.
        masternode: Option<OneMasternode>,
    },
    /// Makes blocks, and signs with the development accounts.
    Develop {
        /// The accounts.
        accounts: Accounts,
        /// Options of block production.
        sealer: SealerOptions,
    },
}

impl Role {
    /// The accounts of its mnemonic, if it has one.
    pub(super) fn accounts(&self) -> Option<Accounts> {
        match self {
            Self::Follow { .. } => None,
            Self::Develop { accounts, .. } => Some(accounts.clone()),
        }
    }
}
