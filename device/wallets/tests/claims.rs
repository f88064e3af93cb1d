//! Two devices that report the same address: the first one keeps it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

mod support;

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{FIRST, address, measured, settings};
use tenon_accounts::{WalletDirectory, register};
use tenon_api::Bytes;
use tenon_api::messages::{ListAccounts, ListWallets, SignMessage, SignTransaction};
use tenon_bus::{Bus, CallContext};
use tenon_device_session::{Hub, Timeouts};
use tenon_device_simulator::{Fault, FaultPlan, MemoryTransport, Model, Simulator};
use tenon_device_wallets::DeviceWallets;
use tenon_sdk::Failure;
use tenon_supervisor::Supervisor;
use tokio::time::{sleep, timeout};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The events logged on this thread: fields and texts.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Log {
    fn holds(&self, words: &[&str]) -> bool {
        let log = self.0.lock().unwrap();
        log.lines().any(|line| words.iter().all(|word| line.contains(word)))
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        writeln!(self.0.lock().unwrap(), "{}", line.0).unwrap();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

async fn accounts(bus: &Bus, url: &str) -> Option<usize> {
    let wallets = bus.call(ListWallets, &CallContext::new()).await.unwrap();
    wallets.into_iter().find(|wallet| wallet.url == url).map(|wallet| wallet.accounts.len())
}

async fn until(bus: &Bus, url: &str, wanted: Option<usize>) {
    let waiting = async {
        while accounts(bus, url).await != wanted {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(30), waiting).await.expect("the wallet never reaches this state");
}

async fn sign(bus: &Bus) -> Result<(), String> {
    let request = SignMessage { address: address(FIRST), message: Bytes::from_static(b"hello"), password: None };
    let signed = bus.call(request, &CallContext::with_timeout(Duration::from_secs(30))).await;
    signed.map(drop).map_err(|error| Failure::from(error).message)
}

/// Makes the first device sign with a wrong key; returns the error that the caller receives.
async fn sign_wrongly(bus: &Bus, first: &Simulator) -> String {
    // Which message of the device has the signature depends on the other requests in between.
    for after in (0..8).cycle().take(40) {
        first.plan_fault(FaultPlan { fault: Fault::WrongSignature, after });
        let request = SignTransaction { request: measured(), password: None };
        let signed = bus.call(request, &CallContext::with_timeout(Duration::from_secs(30))).await;
        if let Err(error) = signed {
            return Failure::from(error).message;
        }
    }
    panic!("the fault never happens");
}

#[tokio::test]
async fn the_wallet_that_had_an_account_first_keeps_it_while_it_is_connected() {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    let (first, second) =
        (Arc::new(Simulator::start(settings(Model::T))), Arc::new(Simulator::start(settings(Model::T))));
    second.unplug();
    // The URL of the second device sorts first.
    let transport = MemoryTransport(vec![("a".into(), second.clone()), ("b".into(), first.clone())]);
    let bus = Bus::new();
    let devices = DeviceWallets::new(bus.clone());
    let directory = WalletDirectory::new(50, bus.clone(), None, None).with_backend(Arc::new(devices.clone()));
    register(&bus, &directory).unwrap();
    let timeouts = Timeouts { quiet: Duration::from_millis(30), ..Timeouts::with_prompt(Duration::from_secs(300)) };
    let runtime = tokio::runtime::Handle::current();
    let hub = Hub::new(vec![Arc::new(transport)], Arc::new(Supervisor::new().unwrap()), runtime, timeouts);
    devices.start(hub, timeouts.prompt);
    until(&bus, "trezor://b", Some(1)).await;
    second.plug().await;
    until(&bus, "trezor://a", Some(1)).await;

    assert_eq!(bus.call(ListAccounts, &CallContext::new()).await, Ok(vec![address(FIRST)]));
    assert_eq!(sign(&bus).await, Ok(()));
    assert_eq!((first.observed().signatures, second.observed().signatures), (1, 0));
    assert!(log.holds(&["WARN", "first=\"trezor://b\"", "second=\"trezor://a\"", FIRST]));

    let refused = sign_wrongly(&bus, &first).await;
    assert!(refused.starts_with("signer mismatch: expected 0x73d0385F"), "{refused}");
    assert!(log.holds(&["WARN", "url=\"trezor://b\"", "signed with the key of another account"]));
    assert_eq!(second.observed().signatures, 0, "no other wallet is asked");

    first.unplug();
    until(&bus, "trezor://b", None).await;
    assert_eq!(sign(&bus).await, Ok(()));
    assert_eq!(second.observed().signatures, 1);
    devices.stop().await;
}
