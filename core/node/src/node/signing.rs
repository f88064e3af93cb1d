//! The wallets of a node: key files, hardware wallets, the signing service.

use tenon_accounts::WalletDirectory;
use tenon_bus::Bus;
use tenon_config::Settings;
use tenon_device_wallets::DeviceWallets;
use tenon_signing_wallet::ServiceWallet;

use super::plan::NodePlan;
use crate::exit::Stop;
use crate::wallets;

/// The wallets, and the two kinds of them that modules control.
pub(super) struct OpenedWallets {
    pub(super) directory: WalletDirectory,
    pub(super) service: Option<ServiceWallet>,
    pub(super) devices: DeviceWallets,
}

impl OpenedWallets {
    /// Opens the wallets of the settings.
    ///
    /// # Errors
    /// [`Stop::Usage`] naming the wrong setting.
    pub(super) fn open(plan: &NodePlan, bus: &Bus) -> Result<Self, Stop> {
        let NodePlan { settings, chain, role, .. } = plan;
        let devices = DeviceWallets::new(bus.clone());
        let service = wallets::signing_service(settings, bus)?;
        let directory = wallets::directory(settings, chain, role.accounts(), devices.clone(), service.clone(), bus)?;
        Ok(Self { directory, service, devices })
    }

    /// Answers the requests about accounts, and unlocks those of the settings.
    ///
    /// # Errors
    /// [`Stop::Usage`] naming the account that cannot be unlocked.
    pub(super) async fn serve(&self, settings: &Settings, bus: &Bus) -> Result<(), Stop> {
        tenon_accounts::register(bus, &self.directory)?;
        wallets::unlock_at_start(settings, &self.directory).await
    }
}
