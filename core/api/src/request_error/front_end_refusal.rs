//! Why a front-end does not start.

use std::net::SocketAddr;

use crate::messages::FrontEnd;

/// Why a front-end does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrontEndRefusal {
    /// It listens at the requested address.
    #[error("the {} front-end already listens at this address", name_of(*.0))]
    AlreadyEnabled(FrontEnd),
    /// It listens at another address.
    #[error("the front-end already listens at {address}")]
    ListensElsewhere {
        /// Its address.
        address: SocketAddr,
    },
}

const fn name_of(front_end: FrontEnd) -> &'static str {
    match front_end {
        FrontEnd::Http => "HTTP",
        FrontEnd::WebSocket => "WebSocket",
    }
}
