//! What a simulated host supplies in place of the operating system: turmoil's sockets and clock, and random numbers that
//! the seed determines. Work for threads that may block runs at once, on the one thread of the simulation.

use std::cell::RefCell;

use rand::distr::{Distribution, StandardUniform};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tenon_network_identity::{KeyError, NodeKey};
use tenon_network_rlpx::HandshakeRandom;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
pub(crate) use turmoil::net::{TcpListener, TcpStream, UdpSocket};
use zeroize::Zeroizing;

thread_local! {
    /// The random numbers of the simulation that runs on this thread.
    static RANDOM: RefCell<StdRng> = RefCell::new(StdRng::seed_from_u64(0));
}

/// Begins the random numbers of a simulation.
pub(super) fn seed(seed: u64) {
    RANDOM.with_borrow_mut(|random| *random = StdRng::seed_from_u64(seed));
}

/// Unix seconds of the simulation; 0 outside of one.
pub(crate) fn unix_now() -> u64 {
    turmoil::since_epoch().map_or(0, |since| since.as_secs())
}

/// A random value.
pub(crate) fn random<T>() -> T
where
    StandardUniform: Distribution<T>,
{
    RANDOM.with_borrow_mut(Rng::random)
}

/// The random values of one handshake.
pub(crate) fn random_for_handshake() -> Result<HandshakeRandom, KeyError> {
    Ok(HandshakeRandom {
        ephemeral: random_key(),
        nonce: random(),
        packet_key: random_key(),
        packet_iv: random(),
        padding: RANDOM.with_borrow_mut(|random| random.random_range(100..300)),
    })
}

/// A random key.
pub(super) fn random_key() -> NodeKey {
    NodeKey::from_secret(Zeroizing::new(random())).unwrap()
}

/// Runs work that may block, as a task: a thread of its own would end at another instant in each run. An import of many
/// blocks waits for further blocks meanwhile, so it cannot run here.
pub(crate) fn spawn_blocking<T: Send + 'static>(
    runtime: &Handle,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    runtime.spawn(async move { work() })
}
