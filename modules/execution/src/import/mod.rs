//! Decides which blocks become canonical, and in which order.

mod actor;
mod ahead;
mod announce;
mod file;
mod importer;
mod pipeline;
mod port;
mod prepare;
mod produce;
mod reorganise;

pub use actor::{ChainActor, ChainHandle, ChainMessage, ImporterError, Reply};
pub use file::FileImportError;
pub use importer::Importer;
pub use pipeline::{ImportObserver, ImportSummary, ImportedBlock};
