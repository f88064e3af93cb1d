//! The cost of opening a key file, and its limits.
//!
//! A file states its own cost, which is checked against the limits before anything is allocated or computed.

use hmac::Hmac;
use scrypt::Params;
use sha2::Sha256;
use tenon_api::KeyFileProblem;
use zeroize::Zeroizing;

/// Bytes derived from a password: half for the cipher, half for the checksum.
pub(super) const DERIVED_BYTES: usize = 32;
/// Size of a scrypt block for `r` = 1.
const SCRYPT_BLOCK: u64 = 128;
const MEBIBYTE: u64 = 1 << 20;

/// Limits on the cost that a key file may state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostLimits {
    /// Bytes of memory.
    pub memory: u64,
    /// Product of scrypt's `n`, `r` and `p`. The standard cost is 2^21, about a second.
    pub scrypt_work: u64,
    /// Rounds of PBKDF2. About a million a second.
    pub pbkdf2_rounds: u32,
}

impl CostLimits {
    /// This limit on memory, and about sixteen seconds of computing.
    pub const fn with_memory(memory: u64) -> Self {
        Self { memory, scrypt_work: 1 << 25, pbkdf2_rounds: 16_000_000 }
    }
}

/// The key derivation function and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyDerivation {
    /// scrypt (RFC 7914).
    Scrypt {
        /// Base-two logarithm of the number of blocks.
        log_n: u8,
        /// Size of a block, in units of 128 bytes.
        r: u32,
        /// Number of tables, computed one after the other.
        p: u32,
    },
    /// PBKDF2 with HMAC-SHA-256 (RFC 8018).
    Pbkdf2 {
        /// Number of rounds.
        rounds: u32,
    },
}

impl KeyDerivation {
    /// For accounts that hold value: about a second and 256 MiB.
    pub const STANDARD: Self = Self::Scrypt { log_n: 18, r: 8, p: 1 };
    /// For small machines and tests: about 0.1 s and 4 MiB.
    pub const LIGHT: Self = Self::Scrypt { log_n: 12, r: 8, p: 6 };

    /// scrypt with the parameters of a file.
    ///
    /// # Errors
    /// [`KeyFileProblem::Field`] for an invalid parameter, [`KeyFileProblem::TooMuchMemory`],
    /// [`KeyFileProblem::TooMuchWork`].
    pub(super) fn scrypt(n: u64, r: u64, p: u64, limits: &CostLimits) -> Result<Self, KeyFileProblem> {
        if n < 2 || !n.is_power_of_two() {
            return Err(KeyFileProblem::Field { name: "n", problem: "is not a power of two above 1" });
        }
        let (Ok(r32), Ok(p32)) = (u32::try_from(r), u32::try_from(p)) else {
            return Err(KeyFileProblem::TooMuchWork);
        };
        if r32 == 0 || p32 == 0 {
            return Err(KeyFileProblem::Field { name: "kdfparams", problem: "has r or p equal to zero" });
        }
        let work = u128::from(n) * u128::from(r) * u128::from(p);
        let memory = u128::from(SCRYPT_BLOCK) * u128::from(r) * u128::from(n);
        if memory > u128::from(limits.memory) {
            let wanted = u64::try_from(memory / u128::from(MEBIBYTE)).unwrap_or(u64::MAX);
            return Err(KeyFileProblem::TooMuchMemory { wanted, allowed: limits.memory / MEBIBYTE });
        }
        if work > u128::from(limits.scrypt_work) {
            return Err(KeyFileProblem::TooMuchWork);
        }
        // A power of two below 2^64 has a logarithm below 64.
        Ok(Self::Scrypt { log_n: n.trailing_zeros() as u8, r: r32, p: p32 })
    }

    /// PBKDF2 with the parameters of a file.
    ///
    /// # Errors
    /// [`KeyFileProblem::Field`], [`KeyFileProblem::TooMuchWork`].
    pub(super) fn pbkdf2(rounds: u64, limits: &CostLimits) -> Result<Self, KeyFileProblem> {
        match u32::try_from(rounds) {
            Ok(0) => Err(KeyFileProblem::Field { name: "c", problem: "is zero" }),
            Ok(rounds) if rounds <= limits.pbkdf2_rounds => Ok(Self::Pbkdf2 { rounds }),
            _ => Err(KeyFileProblem::TooMuchWork),
        }
    }

    /// Bytes of the table that `KeyDerivation::derive` allocates, for the budget. A few further blocks are not counted.
    pub const fn memory(self) -> u64 {
        match self {
            Self::Scrypt { log_n, r, .. } => (SCRYPT_BLOCK * r as u64) << log_n,
            Self::Pbkdf2 { .. } => 0,
        }
    }

    /// Derives the key bytes from a password. Blocks the thread for the time of the cost.
    pub(super) fn derive(self, password: &[u8], salt: &[u8]) -> Result<Zeroizing<[u8; DERIVED_BYTES]>, KeyFileProblem> {
        let mut derived = Zeroizing::new([0; DERIVED_BYTES]);
        let done = match self {
            Self::Scrypt { log_n, r, p } => Params::new(log_n, r, p)
                .is_ok_and(|cost| scrypt::scrypt(password, salt, &cost, derived.as_mut_slice()).is_ok()),
            Self::Pbkdf2 { rounds } => {
                pbkdf2::pbkdf2::<Hmac<Sha256>>(password, salt, rounds, derived.as_mut_slice()).is_ok()
            }
        };
        if done { Ok(derived) } else { Err(KeyFileProblem::TooMuchWork) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CostLimits = CostLimits::with_memory(512 * MEBIBYTE);

    fn scrypt(n: u64, r: u64, p: u64) -> Result<KeyDerivation, KeyFileProblem> {
        KeyDerivation::scrypt(n, r, p, &LIMITS)
    }

    #[test]
    fn the_common_costs_are_accepted() {
        assert_eq!(scrypt(262_144, 8, 1).unwrap(), KeyDerivation::STANDARD);
        assert_eq!(scrypt(4096, 8, 6).unwrap(), KeyDerivation::LIGHT);
        assert_eq!(KeyDerivation::STANDARD.memory(), 256 << 20);
        scrypt(262_144, 1, 8).unwrap();
        scrypt(2, 8, 1).unwrap();
        KeyDerivation::pbkdf2(1_000_000, &LIMITS).unwrap();
    }

    #[test]
    fn excessive_costs_are_refused_before_allocation() {
        let too_much_memory = KeyFileProblem::TooMuchMemory { wanted: 1024, allowed: 512 };
        assert_eq!(scrypt(1 << 20, 8, 1).unwrap_err(), too_much_memory);
        assert!(matches!(scrypt(1 << 63, u64::MAX, u64::MAX), Err(KeyFileProblem::TooMuchWork)));
        assert!(matches!(scrypt(1 << 63, 1, 1), Err(KeyFileProblem::TooMuchMemory { .. })));
        assert!(matches!(scrypt(2, 1 << 16, 1 << 16), Err(KeyFileProblem::TooMuchWork)));
        assert!(matches!(scrypt(4096, 8, 4096), Err(KeyFileProblem::TooMuchWork)));
        assert!(matches!(KeyDerivation::pbkdf2(u64::from(u32::MAX), &LIMITS), Err(KeyFileProblem::TooMuchWork)));
    }

    #[test]
    fn invalid_parameters_are_named() {
        for (n, r, p) in [(0, 8, 1), (1, 8, 1), (3, 8, 1), (4096, 0, 1), (4096, 8, 0)] {
            assert!(matches!(scrypt(n, r, p), Err(KeyFileProblem::Field { .. })), "{n} {r} {p}");
        }
        assert!(matches!(KeyDerivation::pbkdf2(0, &LIMITS), Err(KeyFileProblem::Field { .. })));
    }

    #[test]
    fn derives_the_first_vectors_of_the_standards() {
        // RFC 7914, section 12: the vector of n = 1024, truncated to 32 bytes.
        let scrypt = KeyDerivation::Scrypt { log_n: 10, r: 8, p: 16 }.derive(b"password", b"NaCl").unwrap();
        let hex = alloy_primitives::hex::encode(*scrypt);
        assert_eq!(hex, "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162");
        // RFC 7914, section 11.
        let pbkdf2 = KeyDerivation::Pbkdf2 { rounds: 1 }.derive(b"passwd", b"salt").unwrap();
        let hex = alloy_primitives::hex::encode(*pbkdf2);
        assert_eq!(hex, "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc");
    }
}
