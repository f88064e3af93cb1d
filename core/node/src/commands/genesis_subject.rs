//! The genesis that `tenon genesis` examines.

use std::sync::Arc;

use tenon_api::SealedHeader;
use tenon_chain::{Genesis, GenesisAccount};
use tenon_config::{Network, Origin};

use crate::bounded_file;
use crate::exit::Stop;
use crate::family::{NodeFamily, PublicNetwork, family_of, read_genesis};
use crate::opened_chain::public_genesis;

/// A genesis and the facts derived from it.
pub(super) struct Subject {
    /// The operator's name for it.
    pub(super) name: String,
    /// The public network, if its name was given.
    pub(super) network: Option<PublicNetwork>,
    /// The family of the chain.
    pub(super) family: Arc<dyn NodeFamily>,
    /// The content of the file.
    pub(super) genesis: Genesis,
    /// Block 0.
    pub(super) block: SealedHeader,
}

impl Subject {
    /// Reads a genesis file, or the one of a public network.
    ///
    /// # Errors
    /// [`Stop::Usage`] for the name of a development network, and if the file can't be read; [`Stop::Failure`] if it is
    /// not a genesis file.
    pub(super) fn read(name: &str) -> Result<Self, Stop> {
        let origin = Origin::Argument("NAME|FILE");
        let wrong = |error: &dyn std::fmt::Display| Stop::Failure(format!("{name}: {error}"));
        let unread = |error: &std::io::Error| Stop::Usage(format!("{name}: {error}"));
        let (text, network) = match Network::by_name(name, &origin)? {
            Network::Public(own) => (public_genesis(own)?, PublicNetwork::by_name(own)),
            Network::File(path) => (bounded_file::genesis(path.as_ref()).map_err(|error| unread(&error))?, None),
            Network::Dev => {
                return Err(Stop::Usage(
                    "the genesis of a development network depends on its settings; `tenon dev --datadir DIR` writes \
                     it to genesis.json in the data folder"
                        .into(),
                ));
            }
        };
        let genesis = read_genesis(&text).map_err(|error| wrong(&error))?;
        let block = genesis.sealed_header().map_err(|error| wrong(&error))?;
        let family = family_of(&genesis.spec);
        Ok(Self { name: name.to_owned(), network, family, genesis, block })
    }

    /// The accounts that have code.
    pub(super) fn contracts(&self) -> impl Iterator<Item = &GenesisAccount> {
        self.genesis.alloc.values().filter(|account| !account.code.is_empty())
    }
}
