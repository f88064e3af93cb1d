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
use crate::commands::argument_values::whole_number;
use crate::commands::print;
use crate::exit::Stop;

/// Default mnemonic of a simulated device. It is publicly known.
const MNEMONIC: &str = "all all all all all all all all all all all all";

/// Time until a device unplugged by a fault is plugged in again.
const AWAY: Duration = Duration::from_secs(1);

pub(super) fn definition() -> Command {
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let value =
        |name: &'static str, of: &'static str, help: &'static str| Arg::new(name).long(name).value_name(of).help(help);
    Command::new("simulate")
        .about(
            "Run a hardware wallet in software, reachable over UDP on this machine: for tests only, never for \
            funds",
        )
        .args([
            value("model", "MODEL", "one, t (firmware 1.8.1 and 2.1.1), one-later or t-later (1.12.1 and 2.6.4)")
                .default_value("t-later")
                .value_parser(|text: &str| text.parse::<Model>().map_err(|error| error.to_string())),
            value(
                "port",
                "PORT",
                "UDP port; the debug link uses the next one; 0 chooses two free ports [default: \
                21324]",
            )
            .value_parser(whole_number::<u16>),
            value("mnemonic", "FILE", "Read the mnemonic from this file [default: twelve times `all`]")
                .value_parser(value_parser!(PathBuf)),
            flag("empty", "Start as a device without a seed").conflicts_with("mnemonic"),
            value("label", "TEXT", "Label of the device"),
            value("pin", "DIGITS", "PIN of a Model One: one to nine digits from 1 to 9").value_parser(pin),
            flag("passphrase", "Let the device ask for a passphrase"),
            value(
                "passphrase-source",
                "WHERE",
                "Where the passphrase of an old Model T is entered: ask, device or \
                host",
            )
            .default_value("ask")
            .value_parser(["ask", "device", "host"]),
            value(
                "approve",
                "HOW",
                "How the device answers prompts: always (confirm), never, or asked (by the debug \
                link)",
            )
            .default_value("always")
            .value_parser(["always", "never", "asked"]),
            value("time-scale", "FACTOR", "Factor for the waiting time after wrong PINs")
                .default_value("1")
                .value_parser(time_scale),
            value(
                "fault",
                "FAULT",
                "A fault to simulate, as NAME or NAME@N: in the first message of the device, or after N correct ones",
            )
            .value_parser(|text: &str| text.parse::<FaultPlan>().map_err(|error| error.to_string())),
            flag("length-bug", "Drop the first digit of a message's length 10, 100 or 1000, as firmware 1.8.1 does"),
        ])
}

fn pin(text: &str) -> Result<String, String> {
    let is_sound = (1..=9).contains(&text.len()) && text.bytes().all(|digit| matches!(digit, b'1'..=b'9'));
    if is_sound { Ok(text.to_owned()) } else { Err("a PIN has one to nine digits from 1 to 9".into()) }
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
    if settings.pin.is_some() && !model.has_keypad() {
        return Err(Stop::Usage(format!(
            "--pin is only for the models one and one-later: on {model} the PIN is entered on the device itself"
        )));
    }
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
        Stop::failure(format!("UDP port {port} and the next of 127.0.0.1: {error}; --port 0 chooses free ones"))
    })?;
    let address = sockets.address().map_err(Stop::failure)?;
    let model = settings.model;
    let simulator = Arc::new(Simulator::start(settings));
    let mut screens = simulator.screens();
    if let Some(plan) = matches.get_one::<FaultPlan>("fault") {
        simulator.plan_fault(*plan);
    }
    print(format!("{}  simulated {model}\n", url(&format!("udp:{address}"))).as_bytes())?;
    tokio::select! {
        served = udp::serve(simulator.clone(), sockets) => served.map_err(Stop::failure),
        () = plug_in_again(&simulator) => Ok(()),
        stopped = show(&mut screens) => stopped,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// Prints what a person would see on the device and has to type elsewhere.
async fn show(screens: &mut tokio::sync::watch::Receiver<Option<String>>) -> Result<(), Stop> {
    loop {
        let shown = screens.borrow_and_update().clone();
        if let Some(text) = shown {
            print(text.as_bytes())?;
        }
        if screens.changed().await.is_err() {
            return Ok(());
        }
    }
}

/// Plugs a device in again that a fault unplugged.
async fn plug_in_again(simulator: &Simulator) {
    loop {
        tokio::time::sleep(AWAY).await;
        if !simulator.is_plugged() {
            simulator.plug().await;
        }
    }
}
