//! Arrival and departure of devices.

use std::sync::Arc;
use std::time::Duration;

use tenon_device_session::{DerivationPath, DeviceError, Hub, HubEvent, NoPerson, OpenState, WalletHandle};
use tenon_device_simulator::{Approval, MemoryTransport, Model, Simulator, SimulatorSettings};
use tenon_supervisor::Supervisor;
use tokio::time::timeout;

use crate::support::{ACCOUNT, TIMEOUTS, settings, soon};

fn hub(simulators: &[Arc<Simulator>]) -> Arc<Hub> {
    let named = |(number, simulator): (usize, &Arc<Simulator>)| (format!("device-{number}"), simulator.clone());
    let transport = MemoryTransport(simulators.iter().enumerate().map(named).collect());
    let supervisor = Arc::new(Supervisor::new().unwrap());
    Arc::new(Hub::new(vec![Arc::new(transport)], supervisor, tokio::runtime::Handle::current(), TIMEOUTS))
}

fn urls(hub: &Hub) -> Vec<String> {
    hub.wallets().into_iter().map(|(url, _)| url).collect()
}

async fn open(handle: &WalletHandle) {
    handle.open(None, Box::new(NoPerson), soon()).await.unwrap();
    let path = DerivationPath::account(0);
    assert_eq!(handle.derive(path, true, false, Box::new(NoPerson), soon()).await, Ok(ACCOUNT));
    idle(handle).await;
}

/// Waits until the answered request has ended, because the hub skips busy devices.
async fn idle(handle: &WalletHandle) {
    let mut status = handle.watch_status();
    let over = timeout(Duration::from_secs(5), status.wait_for(|status| !status.is_busy)).await;
    assert!(over.is_ok_and(|over| over.is_ok()), "the request never ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_arrivals_and_departures_within_a_second() {
    let simulators = [Arc::new(Simulator::start(settings(Model::One))), Arc::new(Simulator::start(settings(Model::T)))];
    simulators[1].unplug();
    let hub = hub(&simulators);
    let mut events = hub.events();
    let following = tokio::spawn({
        let hub = hub.clone();
        async move { hub.follow().await }
    });
    let mut next = async || timeout(Duration::from_millis(1500), events.recv()).await.expect("no event").unwrap();

    assert_eq!(next().await, HubEvent::Arrived { url: "trezor://device-0".into() });
    simulators[1].plug().await;
    assert_eq!(next().await, HubEvent::Arrived { url: "trezor://device-1".into() });
    let handle = hub.wallet("trezor://device-0").unwrap();
    open(&handle).await;
    simulators[0].unplug();
    assert_eq!(next().await, HubEvent::Departed { url: "trezor://device-0".into() });

    assert_eq!(urls(&hub), ["trezor://device-1"]);
    assert!(hub.wallet("trezor://device-0").is_none());
    assert!(handle.open(None, Box::new(NoPerson), soon()).await.is_err(), "its wallet is gone");
    simulators[0].plug().await;
    assert_eq!(next().await, HubEvent::Arrived { url: "trezor://device-0".into() });
    open(&hub.wallet("trezor://device-0").unwrap()).await;
    following.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_serial_number_at_a_path_is_another_wallet() {
    let simulator = Arc::new(Simulator::start(settings(Model::One)));
    let hub = hub(std::slice::from_ref(&simulator));
    hub.scan().await;
    open(&hub.wallet("trezor://device-0").unwrap()).await;
    let mut events = hub.events();

    simulator.swap_device_id().await;
    hub.scan().await;

    let url = || "trezor://device-0".to_owned();
    assert_eq!(events.recv().await, Ok(HubEvent::Departed { url: url() }));
    assert_eq!(events.recv().await, Ok(HubEvent::Arrived { url: url() }));
    let status = hub.wallet(&url()).unwrap().status();
    assert_eq!((status.state, status.accounts.len()), (OpenState::Closed, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_waits_for_a_button_hides_no_other() {
    let asking = SimulatorSettings { approval: Approval::Asked, ..settings(Model::One) };
    let simulators = [Arc::new(Simulator::start(asking)), Arc::new(Simulator::start(settings(Model::T)))];
    simulators[1].unplug();
    let hub = hub(&simulators);
    let mut events = hub.events();
    let following = tokio::spawn({
        let hub = hub.clone();
        async move { hub.follow().await }
    });
    let mut next = async || timeout(Duration::from_millis(1500), events.recv()).await.expect("no event").unwrap();
    let url = |number: u32| format!("trezor://device-{number}");
    assert_eq!(next().await, HubEvent::Arrived { url: url(0) });
    let handle = hub.wallet(&url(0)).unwrap();
    open(&handle).await;
    let shown = tokio::spawn({
        let handle = handle.clone();
        async move { handle.derive(DerivationPath::account(0), false, true, Box::new(NoPerson), soon()).await }
    });
    handle.watch_status().wait_for(|status| status.is_waiting_for_button).await.unwrap();

    simulators[1].plug().await;
    assert_eq!(next().await, HubEvent::Arrived { url: url(1) });
    open(&hub.wallet(&url(1)).unwrap()).await;
    simulators[1].unplug();
    assert_eq!(next().await, HubEvent::Departed { url: url(1) });
    assert!(handle.status().is_waiting_for_button, "the looks left it alone");

    simulators[0].decide(true).await;
    assert_eq!(shown.await.unwrap(), Ok(ACCOUNT));
    following.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_device_departs_only_after_its_request() {
    let asking = SimulatorSettings { approval: Approval::Asked, ..settings(Model::One) };
    let simulator = Arc::new(Simulator::start(asking));
    let hub = hub(std::slice::from_ref(&simulator));
    hub.scan().await;
    let handle = hub.wallet("trezor://device-0").unwrap();
    open(&handle).await;
    let shown = handle.derive(DerivationPath::account(0), false, true, Box::new(NoPerson), soon());
    tokio::pin!(shown);
    let mut status = handle.watch_status();
    tokio::select! {
        result = &mut shown => panic!("{result:?}"),
        waiting = status.wait_for(|status| status.is_waiting_for_button) => drop(waiting.unwrap()),
    }

    simulator.swap_device_id().await;
    hub.scan().await;
    assert_eq!(urls(&hub), ["trezor://device-0"]);
    assert!(hub.wallet("trezor://device-0").unwrap().has_account(ACCOUNT), "it is the same wallet");
    simulator.decide(false).await;
    assert!(shown.await.is_err());
    idle(&handle).await;
    hub.scan().await;

    assert_eq!(urls(&hub), ["trezor://device-0"]);
    assert!(!hub.wallet("trezor://device-0").unwrap().has_account(ACCOUNT), "it is another device's wallet");
}

#[tokio::test(flavor = "multi_thread")]
async fn uses_a_bounded_number_of_devices() {
    let simulators: Vec<_> = (0..10).map(|_| Arc::new(Simulator::start(settings(Model::T)))).collect();
    let hub = hub(&simulators);

    hub.scan().await;

    assert_eq!(hub.wallets().len(), 8);
    assert!(hub.wallet("trezor://device-9").is_none());
    simulators[0].unplug();
    hub.scan().await;
    assert!(hub.wallet("trezor://device-0").is_none() && hub.wallet("trezor://device-8").is_some());
    let closed = hub.wallet("trezor://device-3").unwrap();
    let path = DerivationPath::account(0);
    assert_eq!(closed.derive(path, false, false, Box::new(NoPerson), soon()).await, Err(DeviceError::Closed));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_wallet_with_an_account_is_listed_first() {
    let simulators = [Arc::new(Simulator::start(settings(Model::T))), Arc::new(Simulator::start(settings(Model::T)))];
    let hub = hub(&simulators);
    hub.scan().await;
    let claimants = || hub.with_account(ACCOUNT).into_iter().map(|(url, _)| url).collect::<Vec<_>>();
    assert_eq!(claimants(), [""; 0]);

    for number in [1, 0, 1] {
        let handle = hub.wallet(&format!("trezor://device-{number}")).unwrap();
        if handle.is_open() {
            let path = DerivationPath::account(0);
            assert_eq!(handle.derive(path, true, false, Box::new(NoPerson), soon()).await, Ok(ACCOUNT));
            idle(&handle).await;
        } else {
            open(&handle).await;
        }
    }

    assert_eq!(claimants(), ["trezor://device-1", "trezor://device-0"]);
    simulators[1].unplug();
    hub.scan().await;
    assert_eq!(claimants(), ["trezor://device-0"]);
}
