//! `tenon device simulate`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use tenon_device_simulator::udp::{self, Sockets};
use tenon_device_simulator::{Approval, FaultPlan, Model, PassphraseSource, Simulator, SimulatorSettings};
use tenon_device_transport::udp::DEFAULT_PORT;
use zeroize::Zeroizing;

use super::reach::url;
use crate::bounded_file;
use crate::commands::print;
use crate::exit::Stop;

/// The default words of a simulated device. They are publicly known.
const MNEMONIC: &str = "all all all all all all all all all all all all";

/// Time until a device unplugged by a fault is plugged in again.
const AWAY: Duration = Duration::from_secs(1);

pub(super) fn definition() -> Command {
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let value =
        |name: &'static str, of: &'static str, help: &'static str| Arg::new(name).long(name).value_name(of).help(help);
    Command::new("simulate")
        .about("Run a hardware wallet in software, reached over UDP on this machine: for tests, never for money")
        .args([
            value("model", "MODEL", "one, t (firmware 1.8.1 and 2.1.1), one-later or t-later (1.12.1 and 2.6.4)")
                .default_value("t-later")
                .value_parser(|text: &str| text.parse::<Model>().map_err(|error| error.to_string())),
            value("port", "PORT", "UDP port, the debug link has the next; 0: any two free ones [default: 21324]")
                .value_parser(value_parser!(u16)),
            value("mnemonic", "FILE", "Take the words of the seed from this file [default: twelve times `all`]")
                .value_parser(value_parser!(PathBuf)),
            flag("empty", "A device without seed").conflicts_with("mnemonic"),
            value("label", "TEXT", "The device's label"),
            value("pin", "DIGITS", "The PIN of a Model One, one to nine digits 1 to 9").value_parser(pin),
            flag("passphrase", "Have the device ask for a passphrase"),
            value("passphrase-source", "WHERE", "Where a Model T of the era has it typed: ask, device or host")
                .default_value("ask")
                .value_parser(["ask", "device", "host"]),
            value("approve", "HOW", "Who decides at the device: always, never, or the debug link alone (asked)")
                .default_value("always")
                .value_parser(["always", "never", "asked"]),
            value("time-scale", "FACTOR", "What waiting after wrong PINs is multiplied by")
                .default_value("1")
                .value_parser(time_scale),
            value(
                "fault",
                "FAULT",
                "A fault, as NAME or NAME@N: in the first message of the device, or after N sound ones",
            )
            .value_parser(|text: &str| text.parse::<FaultPlan>().map_err(|error| error.to_string())),
            flag("length-bug", "Lose the first digit of a message's length 10, 100 or 1000, as firmware 1.8.1 does"),
        ])
}

fn pin(text: &str) -> Result<String, String> {
    let is_sound = (1..=9).contains(&text.len()) && text.bytes().all(|digit| matches!(digit, b'1'..=b'9'));
    if is_sound { Ok(text.to_owned()) } else { Err("a PIN is one to nine digits 1 to 9".into()) }
}

fn time_scale(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|factor| (0.0..=10.0).contains(factor))
        .ok_or_else(|| "expected a number from 0 to 10".into())
}

fn settings(matches: &ArgMatches) -> Result<SimulatorSettings, Stop> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let words = match matches.get_one::<PathBuf>("mnemonic") {
        None => Zeroizing::new(MNEMONIC.to_owned()),
        Some(path) => {
            let text =
                bounded_file::secret_text(path).map_err(|error| Stop::Usage(format!("{}: {error}", path.display())))?;
            Zeroizing::new(text.split_whitespace().collect::<Vec<_>>().join(" "))
        }
    };
    let model = matches.get_one::<Model>("model").copied().unwrap_or(Model::TLater);
    let mut settings = SimulatorSettings::new(model, &words);
    if matches.get_flag("empty") {
        settings.mnemonic = None;
    }
    settings.label = text("label").map(str::to_owned);
    settings.pin = text("pin").map(|pin| Zeroizing::new(pin.to_owned()));
    settings.has_passphrase_protection = matches.get_flag("passphrase");
    settings.passphrase_source = match text("passphrase-source") {
        Some("device") => PassphraseSource::Device,
        Some("host") => PassphraseSource::Host,
        _ => PassphraseSource::Ask,
    };
    settings.approval = match text("approve") {
        Some("never") => Approval::Never,
        Some("asked") => Approval::Asked,
        _ => Approval::Always,
    };
    settings.time_scale = matches.get_one::<f64>("time-scale").copied().unwrap_or(1.0);
    settings.has_message_length_bug = matches.get_flag("length-bug");
    Ok(settings)
}

pub(super) async fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let settings = settings(matches)?;
    let port = matches.get_one::<u16>("port").copied().unwrap_or(DEFAULT_PORT);
    let sockets = Sockets::bind(port).await.map_err(|error| {
        Stop::failure(format!("UDP port {port} and the next of 127.0.0.1: {error}; --port 0 takes free ones"))
    })?;
    let address = sockets.address().map_err(Stop::failure)?;
    let model = settings.model;
    let simulator = Arc::new(Simulator::start(settings));
    if let Some(plan) = matches.get_one::<FaultPlan>("fault") {
        simulator.plan_fault(*plan);
    }
    print(format!("{}  simulated {model}\n", url(&format!("udp:{address}"))).as_bytes())?;
    tokio::select! {
        served = udp::serve(simulator.clone(), sockets) => served.map_err(Stop::failure),
        () = plug_in_again(&simulator) => Ok(()),
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// Plugs in a device that a fault has unplugged.
async fn plug_in_again(simulator: &Simulator) {
    loop {
        tokio::time::sleep(AWAY).await;
        if !simulator.is_plugged() {
            simulator.plug().await;
        }
    }
}
