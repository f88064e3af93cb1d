//! Forks of the Ethereum profile.

use alloy_primitives::U256;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// The named rule changes of the Ethereum profile, oldest first. `Bpo…` change blob parameters only.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
pub enum Fork {
    /// The first rules.
    Frontier,
    /// EIP-2, EIP-7.
    Homestead,
    /// EIP-150.
    #[strum(serialize = "EIP150")]
    TangerineWhistle,
    /// EIP-158, EIP-160, EIP-170; EIP-155 has a height of its own.
    #[strum(serialize = "EIP158")]
    SpuriousDragon,
    /// Status in receipts, REVERT, static calls.
    Byzantium,
    /// EIP-1283 among others.
    Constantinople,
    /// Constantinople without EIP-1283.
    #[strum(serialize = "ConstantinopleFix")]
    Petersburg,
    /// EIP-1344, EIP-1884, EIP-2028, EIP-2200.
    Istanbul,
    /// Difficulty delay.
    MuirGlacier,
    /// EIP-2929, EIP-2930.
    Berlin,
    /// EIP-1559, EIP-3529, EIP-3541.
    London,
    /// Difficulty delay.
    ArrowGlacier,
    /// Difficulty delay.
    GrayGlacier,
    /// The merge.
    Paris,
    /// Withdrawals, EIP-3651, EIP-3855, EIP-3860.
    Shanghai,
    /// Blobs, EIP-1153, EIP-4788, EIP-5656, EIP-6780.
    Cancun,
    /// EIP-2537, EIP-2935, EIP-6110, EIP-7002, EIP-7251, EIP-7623, EIP-7702.
    Prague,
    /// EIP-7594, EIP-7823, EIP-7825, EIP-7883, EIP-7918, EIP-7934, EIP-7939, EIP-7951.
    Osaka,
    /// First change of blob parameters alone.
    #[strum(serialize = "BPO1")]
    Bpo1,
    /// Second change of blob parameters alone.
    #[strum(serialize = "BPO2")]
    Bpo2,
    /// Third change of blob parameters alone.
    #[strum(serialize = "BPO3")]
    Bpo3,
    /// Fourth change of blob parameters alone.
    #[strum(serialize = "BPO4")]
    Bpo4,
    /// Fifth change of blob parameters alone.
    #[strum(serialize = "BPO5")]
    Bpo5,
}

impl Fork {
    /// Every fork, oldest first.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The name in the public test suites.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The fork with a name of the public test suites; "Merge" is another name of Paris.
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "Merge" {
            return Some(Self::Paris);
        }
        name.parse().ok()
    }

    /// Returns whether forks from this one on are scheduled by time instead of height.
    pub fn is_timed(self) -> bool {
        self >= Self::Shanghai
    }
}

/// When a fork begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// With the block of this height.
    Block(u64),
    /// With the first block whose timestamp is not below this, seconds.
    Time(u64),
    /// With the child of the first block whose total difficulty is not below this (the merge).
    TotalDifficulty(U256),
}
