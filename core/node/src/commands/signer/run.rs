//! `tenon signer run`: the signing service.

use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::Bytes;
use clap::{Arg, ArgMatches, Command, value_parser};
use tenon_accounts::keystore::{CostLimits, FileNames, KeyDerivation, KeyFolder};
use tenon_accounts::{KeystoreOptions, WalletDirectory, spawn_accounts};
use tenon_api::U256;
use tenon_bus::{Bus, CallContext, MemoryBudget, MemoryLimits};
use tenon_config::LogSettings;
use tenon_device_session::{Hub, Timeouts};
use tenon_device_transport::hid::NativeHid;
use tenon_device_transport::webusb::NativeUsb;
use tenon_device_transport::{HidTransport, Transport, UdpTransport, WebUsbTransport};
use tenon_device_wallets::DeviceWallets;
use tenon_ipc::{RpcService, Servers, SocketSettings};
use tenon_sandbox::{MissingProtection, ServiceRights, confine};
use tenon_signing_service::{
    ApproverService, ClientSocket, HttpFrontEnd, Named, Page, Program, ProgramHelper, Service, ServiceError, Settings,
    max_connections,
};
use tenon_supervisor::Supervisor;
use tokio::net::TcpListener;

use crate::commands::print;
use crate::exit::Stop;
use crate::logging;
use crate::open_files;
use crate::passwords::Passwords;

/// The argument of the process that runs the approving program.
const HELPER: &str = "signer-program-helper";
/// Memory of all requests together.
const REQUEST_BYTES: usize = 128 << 20;
/// Memory for deriving keys from passwords.
const KEY_MEMORY: u64 = 512 << 20;
/// Open files besides connections: the log and its checkpoint, devices, listeners, the files of the policy.
const OWN_FILES: u64 = 128;
/// Time limit for running calls when the service stops.
const GRACE: Duration = Duration::from_secs(2);

pub(super) fn definition() -> Command {
    let settings = Arg::new("settings").value_name("FILE").required(true).value_parser(value_parser!(PathBuf));
    Command::new("run")
        .about("Run the signing service")
        .arg(settings.help("Settings file (TOML); `tenon signer new` creates one"))
}

/// The command that the service starts to run an approving program.
pub(super) fn helper() -> Command {
    let seconds = Arg::new("seconds").required(true).value_parser(value_parser!(u64));
    let program = Arg::new("program").required(true).num_args(1..).trailing_var_arg(true).allow_hyphen_values(true);
    Command::new(HELPER).hide(true).args([seconds, program])
}

/// Whether this process is the helper.
pub(super) fn is_helper(command: &str) -> bool {
    command == HELPER
}

/// Runs approving programs for the service.
pub(super) fn help(matches: &ArgMatches) -> Result<(), Stop> {
    let command: Vec<String> = matches.get_many("program").unwrap_or_default().cloned().collect();
    let seconds = matches.get_one::<u64>("seconds").copied().unwrap_or_default();
    tenon_signing_service::help_with_program(&command, seconds).map_err(Stop::failure)
}

pub(super) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let path = matches.get_one::<PathBuf>("settings").cloned().unwrap_or_default();
    let settings = Settings::read(&path).map_err(|error| Stop::Usage(error.to_string()))?;
    logging::start(&LogSettings::default())?;
    // Connections must not use the last file descriptor: a log line that can't be written ends signing.
    open_files::require(OWN_FILES + max_connections(&settings))?;
    // Before the process gives up the right to start others.
    let program = program(&settings)?;
    let keys = Keys::open(&settings)?;
    let opened = Service::open(&settings, keys.directory.clone(), program);
    let (service, opened) = opened.map_err(|error| stop(&settings, error))?;
    tracing::info!(entries = opened.report.entries, policy = %service.policy().hash(), "the log is intact");
    for (rule, client) in service.policy().unknown_clients(|name| settings.clients.contains_key(name)) {
        tracing::warn!(rule, client, "the settings have no such client: the rule never matches");
    }
    if service.policy().is_empty() {
        tracing::warn!("the policy has no rule: every request is denied");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Stop::failure)?;
    let served = runtime.block_on(serve(&settings, keys, service, &opened.key));
    // A thread that lists devices may hang in the operating system; the program must end nevertheless.
    runtime.shutdown_background();
    served
}

fn stop(settings: &Settings, error: ServiceError) -> Stop {
    match error {
        ServiceError::Policy(error) => Stop::Usage(format!("{}: {error}", settings.policy.display())),
        error @ ServiceError::Exposed { .. } => Stop::Usage(error.to_string()),
        ServiceError::Log(error) => Stop::DataFolder(error.to_string()),
        error => Stop::failure(error),
    }
}

fn program(settings: &Settings) -> Result<Option<Program>, Stop> {
    let Some(entry) = &settings.program else { return Ok(None) };
    let mut process = Process::new(std::env::current_exe().map_err(Stop::failure)?);
    process.args(["signer", HELPER]);
    let helper = ProgramHelper::start(process, entry)
        .map_err(|error| Stop::failure(format!("the helper that runs `program.command`: {error}")))?;
    Ok(Some(Program::new(helper)))
}

/// The wallets, and the transports of hardware wallets.
struct Keys {
    directory: WalletDirectory,
    devices: DeviceWallets,
    transports: Vec<Arc<dyn Transport>>,
}

impl Keys {
    /// Opens the wallets, and key files with their passwords. The threads that derive keys end before this returns,
    /// because they are not confined.
    fn open(settings: &Settings) -> Result<Self, Stop> {
        let bus = Bus::new();
        let devices = DeviceWallets::new(bus.clone());
        let keystore = settings.keystore.clone().map(|folder| KeystoreOptions {
            folder: KeyFolder::new(
                folder,
                FileNames::Plain,
                KeyDerivation::STANDARD,
                CostLimits::with_memory(KEY_MEMORY),
            ),
            memory: KEY_MEMORY,
            allows_insecure_unlock: true,
        });
        // Transactions contain their chain id themselves.
        let directory = WalletDirectory::new(0, bus, None, keystore).with_backend(Arc::new(devices.clone()));
        let directory = directory.with_fee_cap(U256::ZERO);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Stop::failure)?;
        runtime.block_on(unlock(settings, &directory))?;
        drop(runtime);
        Ok(Self { directory, devices, transports: transports(settings)? })
    }
}

/// Only the owner may read the service's passwords.
fn check_private(path: &Path) -> Result<(), Stop> {
    // Reading a missing file reports that it is missing.
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    tenon_file_access::check_secret(&metadata)
        .map_err(|exposed| Stop::Usage(format!("passwords: {}: {exposed}", path.display())))
}

async fn unlock(settings: &Settings, directory: &WalletDirectory) -> Result<(), Stop> {
    let mut passwords = match &settings.passwords {
        Some(path) => {
            check_private(path)?;
            Passwords::from_file("passwords", path)?
        }
        None => Passwords::Terminal { otherwise: "give a file with `passwords` in the settings" },
    };
    for account in &settings.unlock {
        let password = passwords.next(&format!("Password of {account}: "))?;
        let unlocked = directory.unlock(*account, &password, 0, &CallContext::new()).await;
        unlocked.map_err(|error| Stop::Usage(format!("`unlock`: {account}: {}", ServiceError::from(error))))?;
    }
    Ok(())
}

fn transports(settings: &Settings) -> Result<Vec<Arc<dyn Transport>>, Stop> {
    let mut transports: Vec<Arc<dyn Transport>> = Vec::new();
    if !settings.udp.is_empty() {
        let udp = UdpTransport::new(settings.udp.iter().copied()).and_then(UdpTransport::with_open_sockets);
        transports.push(Arc::new(udp.map_err(|error| Stop::Usage(format!("`udp`: {error}")))?));
    }
    if settings.devices {
        transports.push(Arc::new(HidTransport::new(NativeHid)));
        transports.push(Arc::new(WebUsbTransport::new(NativeUsb)));
    }
    Ok(transports)
}

/// All listeners, open.
struct Listeners {
    clients: Vec<Servers<Named>>,
    approvers: Vec<Servers<ApproverService>>,
    http: Option<HttpFrontEnd>,
    page: Option<(Page, TcpListener)>,
}

async fn serve(settings: &Settings, keys: Keys, service: Service, log_key: &Bytes) -> Result<(), Stop> {
    let mut signals = Signals::new()?;
    let listeners = open(settings, &service).await?;
    drop_rights(settings)?;
    #[cfg(debug_assertions)]
    super::intrusion::try_if_ordered(settings);
    let Keys { directory, devices, transports } = keys;
    let supervisor = Arc::new(Supervisor::new().map_err(Stop::failure)?);
    start_devices(&devices, transports, &supervisor, settings);
    tokio::spawn(spawn_accounts(&supervisor, &directory).map_err(Stop::failure)?.run());
    print_addresses(settings, log_key, &listeners)?;
    let Listeners { clients, approvers, http, page } = listeners;
    if let Some(http) = http {
        tokio::spawn(http.run());
    }
    if let Some((page, listener)) = page {
        tokio::spawn(page.run(listener));
    }
    loop {
        match signals.next().await {
            Signal::End => break,
            Signal::Reload => match service.reload().await {
                Ok(hash) => tracing::info!(policy = %hash, "the policy was read"),
                Err(error) => tracing::error!(%error, "the policy was not changed"),
            },
        }
    }
    for servers in &clients {
        servers.stop(GRACE).await;
    }
    for servers in &approvers {
        servers.stop(Duration::ZERO).await;
    }
    devices.stop().await;
    directory.lock_all();
    drop(supervisor);
    Ok(())
}

async fn open(settings: &Settings, service: &Service) -> Result<Listeners, Stop> {
    let budget = MemoryBudget::new(MemoryLimits { total: REQUEST_BYTES, client: REQUEST_BYTES / 4 });
    let page = match &settings.page {
        None => None,
        Some(page) => {
            let listener = Page::listen(page.address).await;
            let listener = listener.map_err(|error| Stop::failure(format!("`page.address`: {error}")))?;
            Some((Page::new(service.clone(), &listener).map_err(Stop::failure)?, listener))
        }
    };
    let (mut clients, mut approvers) = (Vec::new(), Vec::new());
    for (name, client) in &settings.clients {
        if let Some(path) = &client.socket {
            clients.push(open_socket(settings, path, Named::new(service.clone(), name), &budget)?);
        }
    }
    for (name, approver) in &settings.approvers {
        let page = page.as_ref().map(|(page, _)| page.clone());
        let answering = ApproverService::new(service.clone(), name, page);
        approvers.push(open_socket(settings, &approver.socket, answering, &budget)?);
    }
    let http = HttpFrontEnd::open(settings, service.clone()).await.map_err(|error| Stop::Usage(error.to_string()))?;
    Ok(Listeners { clients, approvers, http, page })
}

fn open_socket<S: RpcService>(
    settings: &Settings,
    path: &Path,
    answering: S,
    budget: &MemoryBudget,
) -> Result<Servers<S>, Stop> {
    let servers = Servers::new(answering, None).with_memory(budget.clone());
    let limits = ClientSocket::limits(settings.approval_time());
    let opened = servers.open_socket(SocketSettings { path: path.to_owned(), limits });
    opened.map_err(|error| Stop::Usage(error.to_string()))?;
    Ok(servers)
}

/// Gives up the rights that the service does not need. Must run before any other thread starts.
fn drop_rights(settings: &Settings) -> Result<(), Stop> {
    if !settings.confined {
        tracing::warn!("`confined = false`: the service keeps all rights of its user");
        return Ok(());
    }
    let folder = settings.policy.parent().map(Path::to_path_buf);
    let rights = ServiceRights {
        read: folder.into_iter().chain(settings.keystore.clone()).collect(),
        write: vec![settings.log.clone()],
        devices: settings.devices,
    };
    for gap in confine(&rights) {
        match gap {
            MissingProtection::Newer(words) => tracing::info!("{words}"),
            MissingProtection::Required(words) => {
                return Err(Stop::Failure(format!(
                    "the service can't be confined: {words}; `confined = false` in the settings turns confinement off"
                )));
            }
        }
    }
    Ok(())
}

fn start_devices(
    devices: &DeviceWallets,
    transports: Vec<Arc<dyn Transport>>,
    supervisor: &Arc<Supervisor>,
    settings: &Settings,
) {
    if transports.is_empty() {
        return;
    }
    let timeouts = Timeouts::with_prompt(settings.approval_time());
    let runtime = tokio::runtime::Handle::current();
    devices.start(Hub::new(transports, Arc::clone(supervisor), runtime, timeouts), timeouts.prompt);
}

/// Prints the log's public key and the service's addresses.
fn print_addresses(settings: &Settings, log_key: &Bytes, listeners: &Listeners) -> Result<(), Stop> {
    let mut text = format!("log key  {log_key}\n");
    for (name, client) in &settings.clients {
        if let Some(path) = &client.socket {
            text += &format!("client {name}  {}\n", path.display());
        }
    }
    for (name, approver) in &settings.approvers {
        text += &format!("approver {name}  {}\n", approver.socket.display());
    }
    if let Some(http) = &listeners.http {
        text += &format!("http  {}://{}\n", http.scheme(), http.address().map_err(Stop::failure)?);
    }
    if let Some((_, listener)) = &listeners.page {
        text += &format!("page  http://{}\n", listener.local_addr().map_err(Stop::failure)?);
    }
    text += "ready\n";
    print(text.as_bytes())
}

/// A signal of the operator to the process.
enum Signal {
    End,
    Reload,
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self, Stop> {
        use tokio::signal::unix::{SignalKind, signal};
        let of = |kind| signal(kind).map_err(Stop::failure);
        Ok(Self {
            interrupt: of(SignalKind::interrupt())?,
            terminate: of(SignalKind::terminate())?,
            hang_up: of(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::End,
            _ = self.terminate.recv() => Signal::End,
            _ = self.hang_up.recv() => Signal::Reload,
        }
    }
}
