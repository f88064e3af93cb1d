//! Hardware wallets as a module of the node: configured by settings, off by default, and switchable at run time.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tenon_config::{DeviceSettings, Settings};
use tenon_device_session::{Hub, Timeouts};
use tenon_device_transport::hid::NativeHid;
use tenon_device_transport::webusb::NativeUsb;
use tenon_device_transport::{HidTransport, Transport, UdpTransport, WebUsbTransport};
use tenon_device_wallets::DeviceWallets;
use tenon_modules::{ActorControl, ActorModule, ActorStage, ActorSwitch, SwitchError};
use tenon_supervisor::Supervisor;
use tokio::runtime::Handle;

use crate::actor_reports;
use crate::exit::Stop;

/// The devices as a module. If disabled, no devices are looked for, and pending requests to devices are cancelled.
///
/// # Errors
/// [`Stop::Usage`] for an invalid address in `device.udp`, or one on another machine.
pub(crate) fn module(
    settings: &Settings,
    wallets: DeviceWallets,
    supervisor: &Arc<Supervisor>,
) -> Result<ActorModule, Stop> {
    let actor = DeviceActor {
        udp: udp(&settings.device)?,
        timeouts: Timeouts::with_prompt(settings.device.prompt),
        wallets,
        supervisor: Arc::downgrade(supervisor),
    };
    Ok(ActorModule {
        name: "device",
        summary: "Finds hardware wallets and signs with their accounts.",
        uses: &["accounts"],
        answers: &[],
        stage: ActorStage::BeforePlugins,
        is_wanted: settings.device.enabled,
        control: ActorControl::Switch(Box::new(actor)),
        // Each connected wallet has an actor.
        probe: Some(actor_reports::probe(supervisor, &tenon_device_session::ACTORS)),
    })
}

/// Addresses at which simulators are looked for.
fn udp(settings: &DeviceSettings) -> Result<UdpTransport, Stop> {
    let address = |text: &String| {
        text.parse::<SocketAddr>()
            .map_err(|_| Stop::Usage(format!("device.udp: {text:?} is not an address such as 127.0.0.1:21324")))
    };
    let addresses = settings.udp.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    UdpTransport::new(addresses).map_err(|error| Stop::Usage(format!("device.udp: {error}")))
}

struct DeviceActor {
    wallets: DeviceWallets,
    /// Weak: the node stops its supervisor itself, as its only owner.
    supervisor: Weak<Supervisor>,
    udp: UdpTransport,
    timeouts: Timeouts,
}

#[async_trait]
impl ActorSwitch for DeviceActor {
    async fn start(&self) -> Result<(), SwitchError> {
        let supervisor = self.supervisor.upgrade().ok_or(SwitchError::ShuttingDown)?;
        // After a failure, devices may still be in use.
        self.wallets.stop().await;
        let transports: Vec<Arc<dyn Transport>> = vec![
            Arc::new(self.udp.clone()),
            Arc::new(HidTransport::new(NativeHid)),
            Arc::new(WebUsbTransport::new(NativeUsb)),
        ];
        let hub = Hub::new(transports, supervisor, Handle::current(), self.timeouts);
        self.wallets.start(hub, self.timeouts.prompt);
        Ok(())
    }

    async fn stop(&self) -> Result<(), SwitchError> {
        self.wallets.stop().await;
        Ok(())
    }

    fn failure(&self) -> Option<String> {
        let reason = || "it failed and no longer looks for devices; enable it again".to_owned();
        self.wallets.has_failed().then(reason)
    }
}
