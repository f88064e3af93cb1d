//! What the network takes from the operating system: sockets, Unix time, random numbers, and threads that may block.
//! The other modules use these only through this module.
//!
//! In the crate's own tests a simulated host supplies it (`simulation`). The choice by `cfg(test)` costs nothing at run
//! time, needs no type parameter on each struct that holds a socket, and, unlike a feature, cannot get into a release.

#[cfg(test)]
pub(crate) use crate::simulation::system::{
    TcpListener, TcpStream, UdpSocket, random, random_for_handshake, spawn_blocking, unix_now,
};
#[cfg(not(test))]
pub(crate) use real::{TcpListener, TcpStream, UdpSocket, random, random_for_handshake, spawn_blocking, unix_now};

#[cfg(not(test))]
mod real {
    use std::time::{SystemTime, UNIX_EPOCH};

    use rand::distr::{Distribution, StandardUniform};
    use tenon_network_identity::KeyError;
    use tenon_network_rlpx::HandshakeRandom;
    pub(crate) use tokio::net::{TcpListener, TcpStream, UdpSocket};
    use tokio::runtime::Handle;
    use tokio::task::JoinHandle;

    /// Unix seconds; 0 if the clock is before 1970.
    pub(crate) fn unix_now() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    /// A random value.
    pub(crate) fn random<T>() -> T
    where
        StandardUniform: Distribution<T>,
    {
        rand::random()
    }

    /// The random values of one handshake.
    ///
    /// # Errors
    /// The operating system returned no random numbers.
    pub(crate) fn random_for_handshake() -> Result<HandshakeRandom, KeyError> {
        HandshakeRandom::generate()
    }

    /// Runs work that may block on a thread for such work.
    pub(crate) fn spawn_blocking<T: Send + 'static>(
        runtime: &Handle,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        runtime.spawn_blocking(work)
    }
}
