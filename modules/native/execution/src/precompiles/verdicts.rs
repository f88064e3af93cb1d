//! Cache of verdicts on proofs: the same bytes are verified once.

use std::{mem::size_of, num::NonZeroUsize, sync::LazyLock};

use alloy_primitives::{Address, B256, keccak256};
use lru::LruCache;
use parking_lot::Mutex;

use super::ProofError::{self, Abandoned};

/// Maximum memory of the cache, bytes.
const MAX_BYTES: usize = 1 << 20;
/// Memory of one verdict: key, value, and 72 bytes for the pointers of list and table.
const VERDICT_BYTES: usize = size_of::<Key>() + size_of::<Verdict>() + 72;
/// Number of cached verdicts.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(MAX_BYTES / VERDICT_BYTES).unwrap();

/// The contract, and the hash of its input, which determine the verdict.
type Key = (Address, B256);
type Verdict = Result<(), ProofError>;

/// The verdicts used last. One cache per process: a verdict is the same on every chain and in every call.
static VERDICTS: LazyLock<Verdicts> = LazyLock::new(Verdicts::default);

struct Verdicts {
    // Locked for one look-up or insertion, never during a verification.
    entries: Mutex<LruCache<Key, Verdict>>,
}

impl Default for Verdicts {
    fn default() -> Self {
        Self { entries: Mutex::new(LruCache::new(CAPACITY)) }
    }
}

impl Verdicts {
    fn get_or_verify(&self, contract: Address, input: &[u8], verify: impl FnOnce() -> Verdict) -> Verdict {
        let key = (contract, keccak256(input));
        if let Some(verdict) = self.entries.lock().get(&key) {
            return *verdict;
        }
        let verdict = verify();
        // A run that was stopped has no verdict.
        if verdict != Err(Abandoned) {
            self.entries.lock().put(key, verdict);
        }
        verdict
    }
}

/// The cached verdict, or otherwise the result of `verify`.
///
/// # Errors
/// [`ProofError`]; an abandoned verification is repeated the next time.
pub(super) fn get_or_verify(contract: Address, input: &[u8], verify: impl FnOnce() -> Verdict) -> Verdict {
    VERDICTS.get_or_verify(contract, input, verify)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::{BULLETPROOF, RING_SIGNATURE};
    use super::ProofError::{Invalid, Undefined};
    use super::*;

    #[test]
    fn the_same_bytes_are_verified_once_by_each_contract() {
        let verdicts = Verdicts::default();
        let runs = Cell::new(0);
        let ask = |contract, input: &[u8], verdict| {
            verdicts.get_or_verify(contract, input, || {
                runs.set(runs.get() + 1);
                verdict
            })
        };

        for verdict in [Ok(()), Err(Invalid), Err(Undefined("a test"))] {
            let input = format!("{verdict:?}");
            for _ in 0..3 {
                assert_eq!(ask(RING_SIGNATURE, input.as_bytes(), verdict), verdict);
            }
        }
        assert_eq!(runs.get(), 3);
        assert_eq!(ask(BULLETPROOF, b"Ok(())", Err(Invalid)), Err(Invalid));
        assert_eq!(runs.get(), 4);
    }

    #[test]
    fn an_abandoned_verification_is_repeated() {
        let verdicts = Verdicts::default();

        assert_eq!(verdicts.get_or_verify(RING_SIGNATURE, b"proof", || Err(Abandoned)), Err(Abandoned));
        assert_eq!(verdicts.get_or_verify(RING_SIGNATURE, b"proof", || Ok(())), Ok(()));
    }

    #[test]
    fn the_oldest_verdicts_are_evicted() {
        let verdicts = Verdicts::default();
        for number in 0..=CAPACITY.get() as u64 {
            let _ = verdicts.get_or_verify(RING_SIGNATURE, &number.to_be_bytes(), || Err(Invalid));
        }

        assert_eq!(verdicts.entries.lock().len(), CAPACITY.get());
        assert!(CAPACITY.get() * VERDICT_BYTES <= MAX_BYTES);
        assert_eq!(verdicts.get_or_verify(RING_SIGNATURE, &0_u64.to_be_bytes(), || Ok(())), Ok(()));
    }
}
