//! The operations: what can be asked of a device. There are no others.

mod address;
mod management;
mod message;
mod transaction;
mod typed_data;

pub use address::GetAddress;
pub use management::{GetFeatures, Initialize, Ping};
pub use message::SignMessage;
pub use transaction::SignTransaction;
pub use typed_data::{SignTypedData, SignTypedHash};

use crate::{DerivationPath, Unsupported};

/// The most elements of a path: Model One stores no more, and others know none that is longer.
const MAX_PATH: usize = 8;

fn check_path(path: &DerivationPath) -> Result<(), Unsupported> {
    match path.elements().len() {
        length if length > MAX_PATH => Err(Unsupported::PathLength { length, max: MAX_PATH }),
        _ => Ok(()),
    }
}
