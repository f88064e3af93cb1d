//! Blocks and transactions: verification, the pool, and development networks.

use std::path::PathBuf;
use std::time::Duration;

use crate::mnemonic::Mnemonic;
use crate::table::section;
use crate::value::{CertificateChecks, DevProfile, Percent};

section! {
    "Block verification";
    /// How blocks from peers and from files are verified.
    SyncSettings {
        /// `all`: verify every certificate of engine v2. `sampled`: of blocks older than a day, verify only the
        /// certificates of epoch switches, of every hundredth block, and of about one block in thirty, which binds the
        /// others by hash (docs/running.md, Sampled certificates).
        certificates: CertificateChecks = CertificateChecks::All, "sync.certificates", "sync.certificates";
    }
}

section! {
    "Signer recovery";
    /// Recovers the signers of transactions, headers and votes from their signatures. Processors with AVX-512 IFMA,
    /// or with AVX2 and FMA, recover eight at a time.
    RecoverySettings {
        /// Recover one in this many signers a second time with the C library, to detect a processor that computes wrongly;
        /// 0 turns the check off. After a wrong result an error is logged, and the C library recovers all signers.
        check: u32 = 0, "recovery.check", "recovery.check";
    }
}

section! {
    "Transaction pool";
    /// Transactions that wait for a block.
    PoolSettings {
        /// File that keeps local transactions across restarts. A bare file name is placed in the data folder. A symbolic
        /// link is followed. A pipe, a device, or a file with other content is refused and left unchanged.
        journal: PathBuf = PathBuf::from("transactions.rlp"), "txpool.journal", "txpool.journal", old "txpool-journal";
        /// Minimum tip per gas, in wei, also for this node's own accounts; `eth_gasPrice` and `eth_maxPriorityFeePerGas`
        /// suggest at least this. Native chains have a minimum price of their own, 12.5 gwei today.
        price_limit: u64 = 1, "txpool.pricelimit", "txpool.pricelimit", old "txpool-pricelimit";
        /// By how many per cent a replacement must raise the price.
        price_bump: u64 = 10, "txpool.pricebump", "txpool.pricebump", old "txpool-pricebump";
        /// Number of 32 KiB slots that one account may use; its local transactions do not count.
        account_slots: u64 = 80, "txpool.accountslots", "txpool.accountslots", old "txpool-accountslots";
        /// Number of 32 KiB slots in the whole pool. It bounds the memory of the pool.
        global_slots: u64 = 10_240, "txpool.globalslots", "txpool.globalslots", old "txpool-globalslots";
        /// Share of the pool that is reserved for local transactions, which also survive a restart. A transaction is local
        /// if an account of this node sends it, or if it arrives over the Unix socket.
        local_share: Percent = Percent::new(25), "txpool.localshare", "txpool.localshare";
        /// How long the pool keeps a transaction that no block can include: one after a nonce gap, or one with a lower
        /// price than blocks require.
        lifetime: Duration = Duration::from_secs(3 * 3600), "txpool.lifetime", "txpool.lifetime", old "txpool-lifetime";
    }
}

section! {
    "Development network";
    /// The chain that `tenon dev` creates.
    DevSettings {
        /// Rules: `ethereum`, `native` (one masternode, engine v2, the system contracts) or `native-v1`.
        profile: DevProfile = DevProfile::Ethereum, "dev.profile", "profile";
        /// Length of an epoch of the `native` profile, in rounds; at least 2.
        epoch: u64 = 30, "dev.epoch", "epoch";
        /// Time between blocks. Without it, a block is made for every transaction.
        block_time: Option<Duration> = None, "dev.block-time", "block-time", old "dev.period";
        /// Number of funded accounts.
        accounts: u32 = 10, "dev.accounts", "accounts";
        /// Balance of each funded account, in ether.
        balance: u64 = 10_000, "dev.balance", "balance";
        /// Mnemonic from which the keys of the accounts are derived. Give a mnemonic of your own in a file or as
        /// `TENON_DEV_MNEMONIC`: other users can see a program's flags. Your own mnemonic and its keys are not printed.
        mnemonic: Mnemonic = Mnemonic::default(), "dev.mnemonic", "mnemonic";
        /// File with the mnemonic, instead of `dev.mnemonic`.
        mnemonic_file: Option<PathBuf> = None, "dev.mnemonic-file", "mnemonic-file";
        /// Let HTTP and WebSocket listen on an address that other machines can reach. Without it, such an address is
        /// refused, because the node signs for everyone who reaches it.
        expose: bool = false, "dev.expose", "dev.expose";
        /// Chain id. Native profiles always have 5151; on it, all native rules up to the reference's v2.7.0 apply from the
        /// first block.
        chain_id: u64 = 31_337, "dev.chain-id", "chain-id";
        /// Gas limit of every block.
        gas_limit: u64 = 30_000_000, "dev.gas-limit", "gas-limit", old "dev.gaslimit";
    }
}
