//! The accounts directory with simulated devices, reached over UDP as in a node.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenon_accounts::{WalletDirectory, register};
use tenon_api::messages::*;
use tenon_api::{Account, Address, B256, Bytes, SecretText, Transaction, U256, WholeBalance, split_balance};
use tenon_bus::{Bus, CallContext, Delivery, Subscription};
use tenon_device_framing::{Packets, Reader};
use tenon_device_session::{Hub, Timeouts};
use tenon_device_simulator::{Model, Simulator, SimulatorSettings, udp};
use tenon_device_transport::{Transport as _, UdpTransport, Wire};
use tenon_device_wallets::DeviceWallets;
use tenon_proto::debug::{DebugLinkGetState, DebugLinkState};
use tenon_sdk::{Failure, error_texts::device_status_text};
use tenon_supervisor::Supervisor;
use tokio::time::timeout;

pub(crate) const ALL: &str = "all all all all all all all all all all all all";
pub(crate) const FIRST: &str = "0x73d0385F4d8E00C5e6504C6030F47BF6212736A8";
pub(crate) const SECOND: &str = "0xFA01a39f8Abaeb660c3137f14A310d0b414b2A15";
pub(crate) const THIRD: &str = "0x574BbB36871bA6b78E27f4B4dCFb76eA0091880B";
/// Account 0 behind the passphrase `trezor`.
pub(crate) const HIDDEN: &str = "0xE5b1C3D91d7f877Cd628c0A9768Ad6d91fa51cE9";
/// Longer than any step takes on a busy machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn address(text: &str) -> Address {
    text.parse().unwrap()
}

pub(crate) fn settings(model: Model) -> SimulatorSettings {
    SimulatorSettings { time_scale: 0.0, label: Some("mine".into()), ..SimulatorSettings::new(model, ALL) }
}

/// The accounts of a node with one device, and stubs for the rest of the node.
pub(crate) struct Node {
    pub(crate) bus: Bus,
    pub(crate) directory: WalletDirectory,
    pub(crate) devices: DeviceWallets,
    pub(crate) simulator: Arc<Simulator>,
    pub(crate) url: String,
    pub(crate) changes: Subscription<WalletChanged>,
    pub(crate) prompts: Subscription<WalletPrompted>,
    /// Transactions that reached the pool.
    pub(crate) sent: Arc<Mutex<Vec<Transaction>>>,
    /// Accounts with a balance, wei.
    pub(crate) used: Arc<Mutex<HashMap<Address, WholeBalance>>>,
    transport: Arc<UdpTransport>,
    timeouts: Timeouts,
    supervisor: Arc<Supervisor>,
}

impl Node {
    /// Creates a node that has not found its device yet.
    pub(crate) async fn off(chain_id: u64, settings: SimulatorSettings) -> Self {
        let simulator = Arc::new(Simulator::start(settings));
        let sockets = udp::Sockets::bind(0).await.unwrap();
        let address = sockets.address().unwrap();
        tokio::spawn(udp::serve(Arc::clone(&simulator), sockets));
        let bus = Bus::new();
        let devices = DeviceWallets::new(bus.clone());
        let directory = WalletDirectory::new(chain_id, bus.clone(), None, None).with_backend(Arc::new(devices.clone()));
        register(&bus, &directory).unwrap();
        let (sent, used) = (Arc::default(), Arc::default());
        answer_for_the_node(&bus, &sent, &used);
        let quick = Duration::from_millis(30);
        Self {
            changes: bus.subscribe(),
            prompts: bus.subscribe(),
            bus,
            directory,
            devices,
            simulator,
            url: format!("trezor://{}", UdpTransport::path(address)),
            sent,
            used,
            transport: Arc::new(UdpTransport::new([address]).unwrap()),
            timeouts: Timeouts { quiet: quick, ..Timeouts::with_prompt(STEP_TIMEOUT) },
            supervisor: Arc::new(Supervisor::new().unwrap()),
        }
    }

    pub(crate) fn switch_on(&self) {
        let (supervisor, runtime) = (Arc::clone(&self.supervisor), tokio::runtime::Handle::current());
        let hub = Hub::new(vec![self.transport.clone()], supervisor, runtime, self.timeouts);
        self.devices.start(hub, self.timeouts.prompt);
    }

    /// Creates a node whose device has arrived.
    pub(crate) async fn with(chain_id: u64, settings: SimulatorSettings) -> Self {
        let mut node = Self::off(chain_id, settings).await;
        node.switch_on();
        node.until(WalletChange::Arrived).await;
        node
    }

    /// Creates a node with an opened device and its first account.
    pub(crate) async fn open(chain_id: u64, settings: SimulatorSettings) -> Self {
        let mut node = Self::with(chain_id, settings).await;
        node.until(WalletChange::Opened).await;
        assert_eq!(node.derive("m/44'/60'/0'/0/0", true).await, Ok(FIRST.to_owned()));
        node
    }

    /// Waits for a change of the wallet.
    pub(crate) async fn until(&mut self, wanted: WalletChange) {
        let waiting = async {
            while let Some(delivery) = self.changes.next().await {
                match delivery {
                    Delivery::Event(event) if event.change == wanted => return,
                    Delivery::Event(_) | Delivery::Missed(_) => {}
                }
            }
        };
        timeout(STEP_TIMEOUT, waiting).await.expect("the wallet does not change");
    }

    /// Waits until the device shows a prompt.
    pub(crate) async fn until_prompt(&mut self, wanted: WalletPrompt) {
        let waiting = async {
            while let Some(delivery) = self.prompts.next().await {
                match delivery {
                    Delivery::Event(event) if event.prompt == wanted => return,
                    Delivery::Event(_) | Delivery::Missed(_) => {}
                }
            }
        };
        timeout(STEP_TIMEOUT, waiting).await.expect("the device does not ask");
    }

    /// Waits until the wallet's status ends with `end`.
    pub(crate) async fn until_status(&self, end: &str) {
        let waiting = async {
            loop {
                if self.wallets().await.first().is_some_and(|wallet| status_text(wallet).ends_with(end)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(STEP_TIMEOUT, waiting).await.expect("the wallet never has this status");
    }

    pub(crate) async fn call<R: tenon_api::Request>(&self, request: R) -> Result<R::Reply, String> {
        let context = CallContext::with_timeout(STEP_TIMEOUT);
        self.bus.call(request, &context).await.map_err(|error| Failure::from(error).message)
    }

    pub(crate) async fn wallets(&self) -> Vec<Wallet> {
        self.call(ListWallets).await.unwrap()
    }

    /// The status of the wallet, as clients receive it.
    pub(crate) async fn status(&self) -> String {
        status_text(&self.wallets().await.remove(0))
    }

    pub(crate) async fn open_wallet(&self, text: &str) -> Result<(), String> {
        let operation = WalletOperation::Open { passphrase: SecretText::from(text) };
        let answer = self.call(UseWallet { url: self.url.clone(), operation }).await?;
        assert_eq!(answer, WalletAnswer::Done);
        Ok(())
    }

    /// The address at a path, as clients receive it.
    pub(crate) async fn derive(&self, path: &str, is_pinned: bool) -> Result<String, String> {
        let operation = WalletOperation::Derive { path: path.to_owned(), is_pinned };
        match self.call(UseWallet { url: self.url.clone(), operation }).await? {
            WalletAnswer::Account(account) => Ok(account.address.to_string()),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn sign_message(&self, message: &[u8]) -> Result<Bytes, String> {
        let message = Bytes::copy_from_slice(message);
        self.call(SignMessage { address: address(FIRST), message, password: None }).await
    }

    pub(crate) async fn sign(&self, request: CallRequest) -> Result<Transaction, String> {
        let signed = self.call(SignTransaction { request, password: None }).await?;
        Ok(tenon_chain::decode_transaction(&signed.raw).unwrap())
    }

    /// Returns the positions of a PIN's digits on the keypad that the device shows now.
    pub(crate) async fn positions(&self, pin: &str) -> String {
        let path = self.url.strip_prefix("trezor://").unwrap();
        let mut debug = self.transport.open(path, Wire::Debug).await.unwrap();
        let (id, body) = tenon_proto::encode(&DebugLinkGetState {});
        for packet in Packets::new(id, &body).unwrap() {
            debug.send(&packet).await.unwrap();
        }
        let mut reader = Reader::new(Wire::Debug);
        loop {
            if let Some(message) = reader.push(debug.receive().await.unwrap().as_bytes()).unwrap() {
                let state: DebugLinkState = tenon_proto::decode(message.id, &message.body).unwrap();
                let position = |digit: char| char::from(b'1' + state.matrix().find(digit).unwrap() as u8);
                return pin.chars().map(position).collect();
            }
        }
    }

    /// Presses the device's button until a request has completed.
    pub(crate) async fn confirming<T>(&self, request: impl Future<Output = T>) -> T {
        let pressing = async {
            loop {
                self.simulator.decide(true).await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            result = request => result,
            () = pressing => unreachable!("pressing never ends"),
        }
    }
}

fn status_text(wallet: &Wallet) -> String {
    let WalletStatus::Device(status) = &wallet.status else { panic!("{wallet:?} is not a device") };
    device_status_text(status, wallet.failure.as_ref())
}

fn answer_for_the_node(
    bus: &Bus,
    sent: &Arc<Mutex<Vec<Transaction>>>,
    used: &Arc<Mutex<HashMap<Address, WholeBalance>>>,
) {
    let used = Arc::clone(used);
    bus.handle_read(move |request: GetAccount, _: &CallContext| {
        let balance = used.lock().unwrap().get(&request.address).copied().unwrap_or_default();
        let (balance, balance_high) = split_balance(balance);
        Ok(Account { balance, balance_high, ..Account::default() })
    })
    .unwrap();
    bus.handle_read(|_: GetPoolNonce, _: &CallContext| Ok(7)).unwrap();
    let sent = Arc::clone(sent);
    bus.handle_read(move |request: SubmitTransaction, _: &CallContext| {
        let transaction = tenon_chain::decode_transaction(&request.raw).unwrap();
        let hash: B256 = transaction.hash;
        sent.lock().unwrap().push(transaction);
        Ok(Ok(hash))
    })
    .unwrap();
}

/// The transaction of the vectors (`docs/spec/device.md 12.2`).
pub(crate) fn measured() -> CallRequest {
    CallRequest {
        from: Some(address(FIRST)),
        to: Some(address("0x1d1c328764a41bda0492b66baa30c4a339ff85ef")),
        gas: Some(20),
        gas_price: Some(U256::from(20)),
        value: Some(U256::from(10)),
        nonce: Some(0),
        ..CallRequest::default()
    }
}
