//! The complete set of operations on a device.

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

/// Maximum number of elements of a path. Model One can store no more, and other models use no longer ones.
const MAX_PATH: usize = 8;

fn check_path(path: &DerivationPath) -> Result<(), Unsupported> {
    match path.elements().len() {
        length if length > MAX_PATH => Err(Unsupported::PathLength { length, max: MAX_PATH }),
        _ => Ok(()),
    }
}
