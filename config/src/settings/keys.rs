//! What the node signs with: a masternode's key, accounts, hardware wallets, and the signing service.

use std::path::PathBuf;
use std::time::Duration;

use crate::table::section;
use crate::value::ByteSize;

section! {
    "Masternode";
    /// A masternode's key, with which this node votes and makes blocks on a native chain, over the peer-to-peer network.
    /// Never run two nodes with the same key at the same time.
    MasternodeSettings {
        /// File with the key: 64 hexadecimal digits, readable by its owner only. A bare file name is placed in the data
        /// folder.
        key: Option<PathBuf> = None, "masternode.key", "masternode.key";
        /// Instead of a file: an account of this node's wallets. It must be unlocked (`accounts.unlock`).
        account: Option<String> = None, "masternode.account", "masternode.account";
        /// Instead of both: an account of the signing service (`signer.url`) that the service lists among its validators.
        signer: Option<String> = None, "masternode.signer", "masternode.signer";
        /// Gas limit of the blocks that this node makes. The rules bound its change from block to block.
        gas_limit: u64 = 50_000_000, "masternode.gas-limit", "miner-gaslimit";
    }
}

section! {
    "Accounts";
    /// The keys that this node signs with.
    AccountSettings {
        /// Folder of encrypted key files, which other clients can also use. A bare folder name is placed in the data
        /// folder.
        keystore: PathBuf = PathBuf::from("keystore"), "accounts.keystore", "keystore";
        /// Encrypt new key files with a tenth of the usual work and 4 MiB of memory: for small machines, and for keys without
        /// value.
        light_kdf: bool = false, "accounts.lightkdf", "lightkdf";
        /// Maximum memory for deriving keys from passwords. The standard cost takes 256 MiB per key; two keys are derived
        /// at the same time. A key file that needs more than the maximum is refused.
        memory: ByteSize = ByteSize::mebibytes(512), "accounts.memory", "accounts.memory";
        /// Accounts to unlock at the start, until the node ends: addresses, or positions in the list of key files. Their
        /// passwords are in the file `accounts.password`.
        unlock: Vec<String> = Vec::new(), "accounts.unlock", "unlock";
        /// File with the passwords of `accounts.unlock`, one per line; the last line is used for all further accounts.
        password: Option<PathBuf> = None, "accounts.password", "password";
        /// Allow unlocking accounts, and signing with unlocked ones, over HTTP and WebSocket without a bearer token.
        /// Everyone who reaches the port can then spend their funds.
        allow_insecure_unlock: bool = false, "accounts.allowinsecureunlock", "allow-insecure-unlock";
    }
}

section! {
    "Hardware wallets";
    /// Devices whose accounts this node signs with: USB devices of this machine, and simulators (`docs/device.md`). The
    /// module `device` can be enabled and disabled while the node runs.
    DeviceSettings {
        /// Look for hardware wallets. A wallet that asks for neither PIN nor passphrase is opened when it is found.
        enabled: bool = false, "device.enabled", "device.enabled";
        /// How long a device waits for a person to answer its prompt, and how long a request waits for its turn. After that
        /// it is cancelled.
        prompt: Duration = Duration::from_mins(5), "device.prompt", "device.prompt";
        /// UDP addresses of simulators and emulators on this machine, such as 127.0.0.1:21324.
        udp: Vec<String> = Vec::new(), "device.udp", "device.udp";
    }
}

section! {
    "Signing service";
    /// A process that holds keys, enforces rules for signing, and signs for this node (`docs/signer.md`).
    SignerSettings {
        /// Address of the service: the path of its socket, or http://ADDRESS:PORT on this machine.
        url: Option<String> = None, "signer.url", "signer";
        /// File with the bearer token of this node, for HTTP.
        token: Option<PathBuf> = None, "signer.token", "signer.token";
    }
}
