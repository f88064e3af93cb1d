//! Forks of the Ethereum profile.

use alloy_primitives::U256;

/// The named rule changes of the Ethereum profile, oldest first. `Bpo…` change blob parameters only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
#[display("{}", self.name())]
pub enum Fork {
    /// The first rules.
    Frontier,
    /// EIP-2, EIP-7.
    Homestead,
    /// EIP-150.
    TangerineWhistle,
    /// EIP-158, EIP-160, EIP-170; EIP-155 has a height of its own.
    SpuriousDragon,
    /// Status in receipts, REVERT, static calls.
    Byzantium,
    /// EIP-1283 among others.
    Constantinople,
    /// Constantinople without EIP-1283.
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
    Bpo1,
    /// Second change of blob parameters alone.
    Bpo2,
    /// Third change of blob parameters alone.
    Bpo3,
    /// Fourth change of blob parameters alone.
    Bpo4,
    /// Fifth change of blob parameters alone.
    Bpo5,
}

impl Fork {
    /// Every fork, oldest first.
    pub const ALL: [Self; 23] = [
        Self::Frontier,
        Self::Homestead,
        Self::TangerineWhistle,
        Self::SpuriousDragon,
        Self::Byzantium,
        Self::Constantinople,
        Self::Petersburg,
        Self::Istanbul,
        Self::MuirGlacier,
        Self::Berlin,
        Self::London,
        Self::ArrowGlacier,
        Self::GrayGlacier,
        Self::Paris,
        Self::Shanghai,
        Self::Cancun,
        Self::Prague,
        Self::Osaka,
        Self::Bpo1,
        Self::Bpo2,
        Self::Bpo3,
        Self::Bpo4,
        Self::Bpo5,
    ];

    /// The name in the public test suites.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frontier => "Frontier",
            Self::Homestead => "Homestead",
            Self::TangerineWhistle => "EIP150",
            Self::SpuriousDragon => "EIP158",
            Self::Byzantium => "Byzantium",
            Self::Constantinople => "Constantinople",
            Self::Petersburg => "ConstantinopleFix",
            Self::Istanbul => "Istanbul",
            Self::MuirGlacier => "MuirGlacier",
            Self::Berlin => "Berlin",
            Self::London => "London",
            Self::ArrowGlacier => "ArrowGlacier",
            Self::GrayGlacier => "GrayGlacier",
            Self::Paris => "Paris",
            Self::Shanghai => "Shanghai",
            Self::Cancun => "Cancun",
            Self::Prague => "Prague",
            Self::Osaka => "Osaka",
            Self::Bpo1 => "BPO1",
            Self::Bpo2 => "BPO2",
            Self::Bpo3 => "BPO3",
            Self::Bpo4 => "BPO4",
            Self::Bpo5 => "BPO5",
        }
    }

    /// The fork with a name of the public test suites; "Merge" is another name of Paris.
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "Merge" {
            return Some(Self::Paris);
        }
        Self::ALL.into_iter().find(|fork| fork.name() == name)
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
