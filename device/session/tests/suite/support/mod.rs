//! Wallets on simulated devices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, Bytes, U256, address, b256, hex};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tenon_api::messages::DeviceStatus;
use tenon_device_framing::{Packets, Reader};
use tenon_device_session::{
    Answer, DerivationPath, DeviceError, Fees, Member, MemberType, NoPerson, Person, Prompt, Timeouts, Transaction,
    TypedData, Value, Wallet, WalletActor, WalletHandle, WalletStatus,
};
use tenon_device_simulator::{MemoryTransport, Model, Simulator, SimulatorSettings};
use tenon_device_transport::{Link as _, Wire};
use tenon_proto::debug::{DebugLinkGetState, DebugLinkState};
use tenon_proto::{decode, encode};
use tenon_supervisor::{ActorOptions, Supervisor};
use tokio::sync::watch;
use tokio::time::Instant;
use zeroize::Zeroizing;

pub(crate) const ALL: &str = "all all all all all all all all all all all all";

pub(crate) const ACCOUNT: Address = address!("73d0385F4d8E00C5e6504C6030F47BF6212736A8");

/// The models with later firmware.
pub(crate) const LATER: [Model; 2] = [Model::OneLater, Model::TLater];

/// Account 0 behind the passphrase `trezor`.
pub(crate) const HIDDEN: Address = address!("E5b1C3D91d7f877Cd628c0A9768Ad6d91fa51cE9");

pub(crate) fn settings(model: Model) -> SimulatorSettings {
    SimulatorSettings { time_scale: 0.0, ..SimulatorSettings::new(model, ALL) }
}

pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    answer: Duration::from_millis(1500),
    packet: Duration::from_millis(500),
    prompt: Duration::from_secs(20),
    quiet: Duration::from_millis(30),
    resynchronise: Duration::from_secs(10),
};

/// A wallet that the test owns itself, without an actor.
pub(crate) struct Held {
    pub(crate) simulator: Arc<Simulator>,
    pub(crate) wallet: Wallet,
    pub(crate) status: watch::Receiver<WalletStatus>,
}

pub(crate) fn never() -> BoxFuture<'static, ()> {
    Box::pin(std::future::pending())
}

impl Held {
    pub(crate) fn new(settings: SimulatorSettings) -> Self {
        Self::with_timeouts(settings, TIMEOUTS)
    }

    pub(crate) fn with_timeouts(settings: SimulatorSettings, timeouts: Timeouts) -> Self {
        let simulator = Arc::new(Simulator::start(settings));
        let transport = Arc::new(MemoryTransport(vec![("device".into(), simulator.clone())]));
        let (send, status) = watch::channel(WalletStatus::default());
        Self { simulator, wallet: Wallet::new(transport, "device".into(), timeouts, send), status }
    }

    /// Creates an open wallet with account 0.
    pub(crate) async fn open(settings: SimulatorSettings) -> Self {
        let mut held = Self::new(settings);
        held.wallet.open(None, &mut NoPerson, &mut never()).await.unwrap();
        assert_eq!(held.pin_account().await.unwrap(), ACCOUNT);
        held
    }

    pub(crate) async fn pin_account(&mut self) -> Result<Address, DeviceError> {
        self.wallet.derive(DerivationPath::account(0), true, false, &mut NoPerson, &mut never()).await
    }

    pub(crate) fn device_status(&self) -> DeviceStatus {
        self.status.borrow().device_status()
    }
}

/// A wallet behind its actor.
pub(crate) struct Shared {
    pub(crate) simulator: Arc<Simulator>,
    pub(crate) handle: WalletHandle,
    /// Kept because the actor ends with it.
    _supervisor: Supervisor,
}

impl Shared {
    pub(crate) fn new(settings: SimulatorSettings) -> Self {
        let simulator = Arc::new(Simulator::start(settings));
        let transport = Arc::new(MemoryTransport(vec![("device".into(), simulator.clone())]));
        let (send, status) = watch::channel(WalletStatus::default());
        let supervisor = Supervisor::new().unwrap();
        let runtime = tokio::runtime::Handle::current();
        let make = move || {
            let wallet = Wallet::new(transport.clone(), "device".into(), TIMEOUTS, send.clone());
            Ok(WalletActor::new(wallet, runtime.clone()))
        };
        let options = ActorOptions { mailbox_capacity: 4, ..ActorOptions::default() };
        let mailbox = supervisor.spawn("device", options, make).unwrap();
        Self { simulator, handle: WalletHandle::new(mailbox, status), _supervisor: supervisor }
    }

    pub(crate) async fn open(settings: SimulatorSettings) -> Self {
        let shared = Self::new(settings);
        shared.reopen().await;
        shared
    }

    pub(crate) async fn reopen(&self) {
        self.handle.open(None, Box::new(NoPerson), soon()).await.unwrap();
        let path = DerivationPath::account(0);
        assert_eq!(self.handle.derive(path, true, false, Box::new(NoPerson), soon()).await, Ok(ACCOUNT));
    }
}

pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// Answers every question with the same text.
pub(crate) struct AlwaysAnswers(pub(crate) &'static str);

#[async_trait]
impl Person for AlwaysAnswers {
    async fn ask(&mut self, prompt: Prompt) -> Option<Answer> {
        let text = Zeroizing::new(self.0.to_owned());
        let answer = match prompt {
            Prompt::Pin(_) => Answer::Pin(text),
            Prompt::Passphrase { .. } => Answer::Passphrase(text),
        };
        Some(answer)
    }
}

/// Returns the positions of a PIN's digits on the keypad that the device shows now.
pub(crate) async fn positions(simulator: &Simulator, pin: &str) -> Zeroizing<String> {
    let mut debug = simulator.link(Wire::Debug);
    let (id, body) = encode(&DebugLinkGetState {});
    for packet in Packets::new(id, &body).unwrap() {
        debug.send(&packet).await.unwrap();
    }
    let mut reader = Reader::new(Wire::Debug);
    loop {
        if let Some(message) = reader.push(debug.receive().await.unwrap().as_bytes()).unwrap() {
            let state: DebugLinkState = decode(message.id, &message.body).unwrap();
            let position = |digit: char| char::from(b'1' + state.matrix().find(digit).unwrap() as u8);
            return Zeroizing::new(pin.chars().map(position).collect());
        }
    }
}

pub(crate) fn legacy(chain_id: Option<u64>, data: usize) -> Transaction {
    Transaction {
        chain_id,
        nonce: 3,
        gas_limit: 90_000,
        to: Some(address!("1d1c328764a41bda0492b66baa30c4a339ff85ef")),
        value: U256::from(10),
        data: Bytes::from((0..data).map(|at| at as u8).collect::<Vec<_>>()),
        fees: Fees::Legacy { gas_price: U256::from(250_000_000u64) },
    }
}

/// The example of EIP-712, with the hashes from the standard.
pub(crate) fn mail() -> TypedData {
    let member = |name: &str, kind| Member { name: name.into(), kind };
    let person = || MemberType::Structure("Person".into());
    let domain = vec![
        member("name", MemberType::Text),
        member("version", MemberType::Text),
        member("chainId", MemberType::Unsigned(32)),
        member("verifyingContract", MemberType::Address),
    ];
    let mail = vec![member("from", person()), member("to", person()), member("contents", MemberType::Text)];
    let people = vec![member("name", MemberType::Text), member("wallet", MemberType::Address)];
    let text = |text: &str| Value::Plain(text.as_bytes().to_vec());
    let mut chain_id = vec![0; 32];
    chain_id[31] = 1;
    let cow = hex!("CD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826").to_vec();
    let bob = hex!("bBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB").to_vec();
    let contract = hex!("CcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC").to_vec();
    TypedData {
        structures: BTreeMap::from([("EIP712Domain".into(), domain), ("Mail".into(), mail), ("Person".into(), people)]),
        primary_type: "Mail".into(),
        domain: Value::Parts(vec![text("Ether Mail"), text("1"), Value::Plain(chain_id), Value::Plain(contract)]),
        message: Value::Parts(vec![
            Value::Parts(vec![text("Cow"), Value::Plain(cow)]),
            Value::Parts(vec![text("Bob"), Value::Plain(bob)]),
            text("Hello, Bob!"),
        ]),
        domain_separator: b256!("f2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f"),
        message_hash: Some(b256!("c52c0ee5d84264471806290a3f2c4cecfc5490626bf912d01f240d7a274b371e")),
    }
}
