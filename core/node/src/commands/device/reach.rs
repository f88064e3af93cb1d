//! Lists devices and the transports to reach them: `tenon device list`.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use tenon_device_transport::hid::NativeHid;
use tenon_device_transport::webusb::NativeUsb;
use tenon_device_transport::{Found, HidTransport, LinkError, Transport, UdpTransport, WebUsbTransport, udp};

use crate::commands::print;
use crate::exit::Stop;
use crate::log_output;

/// Prefix of a device's path in the URL of its wallet.
const URL_SCHEME: &str = "trezor://";

pub(super) fn definition() -> Command {
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("One JSON object per line");
    Command::new("list").about("List the connected devices by the URLs of their wallets").args([udp_argument(), json])
}

/// `--udp`, for every command that uses devices.
pub(super) fn udp_argument() -> Arg {
    Arg::new("udp")
        .long("udp")
        .value_name("HOST:PORT")
        .action(ArgAction::Append)
        .value_parser(value_parser!(SocketAddr))
        .help(format!("UDP address of a simulator on this machine, such as 127.0.0.1:{}", udp::DEFAULT_PORT))
}

/// `--device`, which chooses one of several.
pub(super) fn device_argument() -> Arg {
    Arg::new("device").long("device").value_name("URL").help("The wallet, if several devices are connected")
}

/// The transports, simulators first: USB can be slow to list. Simulators have no default address, because any user of the
/// machine could listen there, and receive a passphrase.
fn transports(matches: &ArgMatches) -> Result<Vec<Arc<dyn Transport>>, Stop> {
    let addresses: Vec<SocketAddr> = matches.get_many("udp").unwrap_or_default().copied().collect();
    let udp = UdpTransport::new(addresses).map_err(|error| Stop::Usage(error.to_string()))?;
    Ok(vec![Arc::new(udp), Arc::new(HidTransport::new(NativeHid)), Arc::new(WebUsbTransport::new(NativeUsb))])
}

pub(super) fn url(path: &str) -> String {
    format!("{URL_SCHEME}{path}")
}

/// All devices with their transports, and the errors of listing them.
struct Listed {
    devices: Vec<(Arc<dyn Transport>, Found)>,
    errors: Vec<LinkError>,
}

impl Listed {
    fn print_errors(&self) {
        self.errors.iter().for_each(|error| log_output::eprint_line(&format!("tenon: {error}")));
    }
}

async fn find(matches: &ArgMatches) -> Result<Listed, Stop> {
    let mut listed = Listed { devices: Vec::new(), errors: Vec::new() };
    for transport in transports(matches)? {
        match transport.list().await {
            Ok(found) => listed.devices.extend(found.into_iter().map(|found| (transport.clone(), found))),
            Err(error) => listed.errors.push(error),
        }
    }
    Ok(listed)
}

/// The device that the command uses.
pub(super) async fn choose(matches: &ArgMatches) -> Result<(Arc<dyn Transport>, Found), Stop> {
    let wanted = matches.get_one::<String>("device");
    let mut listed = find(matches).await?;
    let found = &mut listed.devices;
    found.retain(|(_, found)| wanted.is_none_or(|wanted| *wanted == url(&found.path)));
    let count = found.len();
    if count == 0 {
        listed.print_errors();
    }
    let found = &mut listed.devices;
    match (count, wanted) {
        (1, _) => found.pop().ok_or_else(|| Stop::failure("no device is connected")),
        (0, Some(wanted)) => Err(Stop::failure(format!("unknown wallet: no device is connected as {wanted}"))),
        (0, None) => Err(Stop::failure("no device is connected; --udp names a simulated one")),
        (_, _) => {
            let urls: Vec<String> = found.iter().map(|(_, found)| url(&found.path)).collect();
            Err(Stop::Usage(format!("several devices are connected, choose one with --device: {}", urls.join(", "))))
        }
    }
}

pub(super) async fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let mut lines = String::new();
    let listed = find(matches).await?;
    listed.print_errors();
    for (_, found) in &listed.devices {
        let url = url(&found.path);
        if matches.get_flag("json") {
            let line = json!({
                "url": url,
                "transport": found.transport,
                "serial": found.serial,
                "bootloader": found.is_bootloader,
            });
            lines += &format!("{line}\n");
        } else {
            let bootloader = if found.is_bootloader { "  bootloader" } else { "" };
            lines += &format!("{url}  {}{bootloader}\n", found.transport);
        }
    }
    print(lines.as_bytes())
}
