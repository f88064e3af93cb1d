//! The genesis with which a command opens a data folder.

use tenon_config::Resolved;

use super::dev;
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::opened_chain::{ChosenGenesis, Named, named_genesis, no_chain};

/// The genesis chosen in the settings, or the one kept in the folder.
///
/// # Errors
/// [`Stop::Usage`] if there is none, if two are chosen, or if the file can't be read.
pub(crate) fn chosen_genesis(resolved: &Resolved, folder: &DataFolder) -> Result<ChosenGenesis, Stop> {
    match named_genesis(resolved)? {
        Named::Chosen(genesis) => Ok(genesis),
        Named::Development => match folder.genesis()? {
            Some(kept) => Ok(kept.into()),
            None => {
                let settings = dev::with_mnemonic(resolved)?;
                Ok(dev::genesis(&settings)?.into())
            }
        },
        Named::Nothing => folder.genesis()?.map(Into::into).ok_or_else(|| no_chain(folder.path())),
    }
}
