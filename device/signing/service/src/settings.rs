//! The service's settings: one TOML file. Unknown keys are errors.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use alloy_primitives::Address;
use serde::Deserialize;

use tenon_signing_audit::owner;

/// Maximum length of a settings file, bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum number of clients, and of approvers.
const MAX_NAMES: usize = 64;
/// Maximum length of a name, characters.
const MAX_NAME: usize = 64;
/// Maximum time for an approval, seconds.
const MAX_APPROVAL_TIME: u64 = 24 * 3_600;

/// The settings can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file can't be read.
    #[error("{}: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The text is not a settings file. The reason names the line.
    #[error("{}: {reason}", .path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// The settings. Paths are relative to the folder of the settings file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Version of the file format: 1.
    pub version: u32,
    /// The policy (TOML).
    pub policy: PathBuf,
    /// The folder of the audit log.
    pub log: PathBuf,
    /// The folder of key files. No key files are used if missing.
    pub keystore: Option<PathBuf>,
    /// Accounts whose key files are unlocked at start.
    #[serde(default)]
    pub unlock: Vec<Address>,
    /// A file with their passwords, one per line; the last one applies to all remaining accounts. If missing, the
    /// terminal prompts for the passwords.
    pub passwords: Option<PathBuf>,
    /// Whether hardware wallets are used.
    #[serde(default)]
    pub devices: bool,
    /// Addresses of device simulators on this machine.
    #[serde(default)]
    pub udp: Vec<SocketAddr>,
    /// Validator accounts, each with the id of its chain. They sign only consensus messages for that chain, and no
    /// other account signs any. The signed bytes do not include the chain, so a client must not be able to choose it.
    #[serde(default)]
    pub validators: BTreeMap<Address, u64>,
    /// Seconds in which a request must be approved.
    #[serde(default = "default_approval_seconds")]
    pub approval_seconds: u64,
    /// Number of people who must approve: 1 or 2.
    #[serde(default = "default_approvals")]
    pub approvals: u8,
    /// Maximum number of requests per minute of each client.
    #[serde(default = "default_rate")]
    pub requests_per_minute: u32,
    /// Whether the service drops permissions that it does not need (Landlock and seccomp). If not, it logs a warning.
    #[serde(default = "default_confined")]
    pub confined: bool,
    /// The clients, by name.
    #[serde(default)]
    pub clients: BTreeMap<String, ClientEntry>,
    /// The approvers, by name.
    #[serde(default)]
    pub approvers: BTreeMap<String, ApproverEntry>,
    /// HTTP for clients; disabled if missing.
    pub http: Option<HttpEntry>,
    /// The page for approvals; disabled if missing.
    pub page: Option<PageEntry>,
    /// An approving program; none if missing.
    pub program: Option<ProgramEntry>,
}

const fn default_approval_seconds() -> u64 {
    300
}

const fn default_approvals() -> u8 {
    1
}

const fn default_rate() -> u32 {
    600
}

const fn default_confined() -> bool {
    true
}

/// A client and its credentials, of which at least one is required.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClientEntry {
    /// Its own Unix socket. Any process that can open the file acts as this client.
    pub socket: Option<PathBuf>,
    /// A file with its bearer token for HTTP.
    pub token: Option<PathBuf>,
    /// Its certificate (PEM) for HTTP with mutual TLS.
    pub certificate: Option<PathBuf>,
    /// Whether it may reload the policy by `POST /reload`.
    #[serde(default)]
    pub reload: bool,
}

/// An approver.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ApproverEntry {
    /// The approver's own Unix socket, for `tenon signer requests | show | approve | deny | login`.
    pub socket: PathBuf,
    /// Clients that are the same person, whose requests this approver can't approve. A client with the approver's name
    /// is always one of them.
    #[serde(default)]
    pub clients: BTreeSet<String>,
}

/// HTTP for clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpEntry {
    /// Address to listen on. An address reachable from other machines requires TLS.
    pub address: SocketAddr,
    /// The service's certificate chain (PEM). If set, HTTPS is served instead of HTTP.
    pub certificate: Option<PathBuf>,
    /// The certificate's private key (PEM).
    pub key: Option<PathBuf>,
    /// The authority that signed the clients' certificates (PEM). If set, clients must present a certificate.
    pub authority: Option<PathBuf>,
}

/// The page for approvals.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PageEntry {
    /// Address to listen on, which must be a loopback address.
    pub address: SocketAddr,
}

/// A program that approves requests. It reads the presentation as JSON and approves with exit code 0.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ProgramEntry {
    /// The program's absolute path, and its arguments.
    pub command: Vec<String>,
    /// Time limit of a run, seconds.
    #[serde(default = "default_program_seconds")]
    pub seconds: u64,
    /// Clients whose requests it can't approve.
    #[serde(default)]
    pub clients: BTreeSet<String>,
}

const fn default_program_seconds() -> u64 {
    30
}

impl Settings {
    /// Reads a settings file.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        use std::io::Read as _;
        let unreadable = |reason: String| SettingsError::Unreadable { path: path.to_owned(), reason };
        let file = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
        owner::check_with_folder(path).map_err(|owner::ExposedPath { path, access }| SettingsError::Unreadable {
            path,
            reason: access.to_string(),
        })?;
        let mut text = String::new();
        file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
        if text.len() as u64 > MAX_BYTES {
            return Err(unreadable(format!("it is longer than {MAX_BYTES} bytes")));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = std::path::absolute(folder).map_err(|error| unreadable(error.to_string()))?;
        Self::parse(&text, &folder).map_err(|reason| SettingsError::Form { path: path.to_owned(), reason })
    }

    /// Parses a text whose paths are relative to `folder`.
    fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let mut settings: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.check()?;
        settings.resolve(folder);
        Ok(settings)
    }

    /// Time in which a request must be approved.
    pub const fn approval_time(&self) -> Duration {
        Duration::from_secs(self.approval_seconds)
    }

    /// Paths besides settings and policy that decide who may ask, what is approved or which keys sign: the approving
    /// program, certificates, tokens, sockets, passwords and the folder of the key files.
    pub(crate) fn paths_that_decide(&self) -> impl Iterator<Item = &Path> {
        let program = self.program.iter().filter_map(|program| program.command.first()).map(Path::new);
        let http = self.http.iter().flat_map(|http| [&http.certificate, &http.key, &http.authority]).flatten();
        let clients = self.clients.values().flat_map(|client| [&client.certificate, &client.token, &client.socket]);
        let approvers = self.approvers.values().map(|approver| &approver.socket);
        let keys = [&self.keystore, &self.passwords].into_iter().flatten();
        program.chain(http.chain(clients.flatten()).chain(approvers).chain(keys).map(PathBuf::as_path))
    }

    fn check(&self) -> Result<(), String> {
        require(self.version == 1, || format!("`version` is {}; this program reads version 1", self.version))?;
        require((1..=MAX_APPROVAL_TIME).contains(&self.approval_seconds), || {
            format!("`approval-seconds` is 1 to {MAX_APPROVAL_TIME}")
        })?;
        require((1..=2).contains(&self.approvals), || "`approvals` is 1 or 2".to_owned())?;
        require(self.requests_per_minute > 0, || "`requests-per-minute` is at least 1".to_owned())?;
        require(self.clients.len() <= MAX_NAMES && self.approvers.len() <= MAX_NAMES, || {
            format!("more than {MAX_NAMES} clients or approvers")
        })?;
        for name in self.clients.keys().chain(self.approvers.keys()) {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
            require(!name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_plain), || {
                format!("the name {name:?}: use 1 to {MAX_NAME} letters, digits, `-`, `_` and `.`")
            })?;
        }
        for (name, client) in &self.clients {
            self.check_client(name, client)?;
        }
        if let Some(address) = self.udp.iter().find(|address| !address.ip().is_loopback()) {
            return Err(format!("`udp`: {address} is not an address of this machine"));
        }
        self.check_http()?;
        if let Some(page) = &self.page {
            require(page.address.ip().is_loopback(), || {
                "`page.address` must be an address of this machine".to_owned()
            })?;
            require(!self.approvers.is_empty(), || "`page` needs approvers".to_owned())?;
        }
        if let Some(program) = &self.program {
            let is_whole = program.command.first().is_some_and(|program| Path::new(program).is_absolute());
            require(is_whole, || "`program.command` must begin with the absolute path of a program".to_owned())?;
            require((1..=3_600).contains(&program.seconds), || "`program.seconds` is 1 to 3600".to_owned())?;
        }
        let people = self.approvers.len() + usize::from(self.program.is_some());
        require(self.approvals == 1 || people >= 2, || "`approvals = 2` needs two approvers".to_owned())
    }

    fn check_client(&self, name: &str, client: &ClientEntry) -> Result<(), String> {
        let ClientEntry { socket, token, certificate, reload } = client;
        require(socket.is_some() || token.is_some() || certificate.is_some(), || {
            format!(
                "`clients.{name}` has no `socket`, `token` or `certificate`, so nothing can connect as this \
                client"
            )
        })?;
        require(token.is_none() && certificate.is_none() || self.http.is_some(), || {
            format!("`clients.{name}`: `token` and `certificate` need `[http]`")
        })?;
        require(!reload || token.is_some() || certificate.is_some(), || {
            format!("`clients.{name}`: `reload` is only for clients over HTTP, with `token` or `certificate`")
        })?;
        let has_authority = self.http.as_ref().is_some_and(|http| http.authority.is_some());
        require(certificate.is_none() || has_authority, || {
            format!("`clients.{name}`: `certificate` needs `http.authority`")
        })
    }

    fn check_http(&self) -> Result<(), String> {
        let Some(http) = &self.http else { return Ok(()) };
        require(http.certificate.is_some() == http.key.is_some(), || {
            "`http.certificate` and `http.key` must be given together".to_owned()
        })?;
        require(http.authority.is_none() || http.certificate.is_some(), || {
            "`http.authority` needs `http.certificate`".to_owned()
        })?;
        require(http.certificate.is_some() || http.address.ip().is_loopback(), || {
            "`http.address` can be reached from other machines: give `http.certificate` and `http.key`".to_owned()
        })
    }

    fn resolve(&mut self, folder: &Path) {
        let of_clients = self.clients.values_mut().flat_map(|client| {
            [client.socket.as_mut(), client.token.as_mut(), client.certificate.as_mut()].into_iter().flatten()
        });
        let of_http = self.http.iter_mut().flat_map(|http| {
            [http.certificate.as_mut(), http.key.as_mut(), http.authority.as_mut()].into_iter().flatten()
        });
        let of_approvers = self.approvers.values_mut().map(|approver| &mut approver.socket);
        let own = [Some(&mut self.policy), Some(&mut self.log), self.keystore.as_mut(), self.passwords.as_mut()];
        for path in own.into_iter().flatten().chain(of_clients).chain(of_http).chain(of_approvers) {
            *path = folder.join(&*path);
        }
    }
}

fn require(is_met: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if is_met { Ok(()) } else { Err(reason()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "version = 1\npolicy = \"policy.toml\"\nlog = \"log\"\n";

    fn parse(rest: &str) -> Result<Settings, String> {
        Settings::parse(&format!("{LEAST}{rest}"), Path::new("/signer"))
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let settings = parse("keystore = \"/keys\"\n[clients.a]\nsocket = \"a.sock\"").unwrap();

        assert_eq!(settings.policy, Path::new("/signer/policy.toml"));
        assert_eq!(settings.keystore.as_deref(), Some(Path::new("/keys")));
        assert_eq!(settings.clients["a"].socket.as_deref(), Some(Path::new("/signer/a.sock")));
        assert!(settings.confined && settings.approvals == 1);
    }

    #[test]
    fn settings_that_mean_nothing_or_open_too_much_are_refused() {
        for (rest, expected) in [
            ("colour = 1", "unknown field `colour`"),
            ("approvals = 3", "`approvals` is 1 or 2"),
            ("approvals = 2", "needs two approvers"),
            ("approval-seconds = 0", "`approval-seconds` is 1 to"),
            ("udp = [\"10.0.0.1:1\"]", "is not an address of this machine"),
            ("[clients.a]", "nothing can connect as this client"),
            ("[clients.\"a b\"]\nsocket = \"a\"", "letters, digits"),
            ("[clients.a]\ntoken = \"a\"", "need `[http]`"),
            ("[clients.a]\nsocket = \"a\"\nreload = true", "`reload` is only for clients over HTTP"),
            ("[http]\naddress = \"0.0.0.0:1\"", "can be reached from other machines"),
            ("[http]\naddress = \"127.0.0.1:1\"\nkey = \"k\"", "must be given together"),
            ("[http]\naddress = \"127.0.0.1:1\"\nauthority = \"a\"", "needs `http.certificate`"),
            ("[page]\naddress = \"192.168.0.1:1\"", "must be an address of this machine"),
            ("[page]\naddress = \"127.0.0.1:1\"", "needs approvers"),
            ("[program]\ncommand = [\"approve\"]", "absolute path"),
        ] {
            let error = parse(rest).unwrap_err();
            assert!(error.contains(expected), "{rest}: {error}");
        }
    }
}
