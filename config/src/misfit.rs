//! Settings that contradict each other.

use crate::settings::Settings;
use crate::value::{ByteSize, SettingValue, Value};

/// The first setting that contradicts others, and the problem.
pub(crate) fn misfit(settings: &Settings) -> Option<(&'static str, String)> {
    let rpc = &settings.rpc;
    let show = |size: ByteSize| match size.show() {
        Value::Text(text) => text,
        other => other.to_string(),
    };
    let messages = [
        ("http.bodylimit", settings.http.enabled, settings.http.body_limit),
        ("ws.messagelimit", settings.ws.enabled, settings.ws.message_limit),
        ("ipc.messagelimit", !settings.ipc.disabled, settings.ipc.message_limit),
    ];
    for (key, _, message) in messages.into_iter().filter(|(_, is_enabled, _)| *is_enabled) {
        if rpc.memory < message {
            let (found, message) = (show(rpc.memory), show(message));
            return Some((
                "rpc.memory",
                format!("expected at least `{key}` ({message}), the size of one message, found {found}"),
            ));
        }
    }
    if rpc.client_memory > rpc.memory {
        let (found, memory) = (show(rpc.client_memory), show(rpc.memory));
        return Some(("rpc.clientmemory", format!("expected at most `rpc.memory` ({memory}), found {found}")));
    }
    let share = rpc.client_share();
    let key = if rpc.client_memory.0 == 0 { "rpc.memory" } else { "rpc.clientmemory" };
    if settings.http.enabled && share < settings.http.body_limit {
        let (share, body) = (show(share), show(settings.http.body_limit));
        return Some((
            key,
            format!(
                "expected that one client gets at least `http.bodylimit` ({body}), the size of one request, found {share} for it"
            ),
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layers, resolve};

    fn refusal(flags: &[(&'static str, &str)]) -> Option<String> {
        let flags = flags.iter().map(|(key, text)| (*key, format!("--{key}"), (*text).to_owned()));
        resolve(Layers::new("run").flags(flags)).err().map(|error| error.to_string())
    }

    #[test]
    fn contradictory_settings_are_refused() {
        for (flags, expected) in [
            (
                &[("rpc.memory", "32MiB")][..],
                "flag --rpc.memory: `rpc.memory`: expected at least `ipc.messagelimit` (64MiB), the size of one message, found 32MiB",
            ),
            (
                &[("rpc.clientmemory", "1GiB")],
                "flag --rpc.clientmemory: `rpc.clientmemory`: expected at most `rpc.memory` (512MiB), found 1GiB",
            ),
            (
                &[("rpc.clientmemory", "1MiB")],
                "flag --rpc.clientmemory: `rpc.clientmemory`: expected that one client gets at least `http.bodylimit` (5MiB), the \
                 size of one request, found 1MiB for it",
            ),
        ] {
            assert_eq!(refusal(flags).as_deref(), Some(expected));
        }
        assert_eq!(refusal(&[("rpc.memory", "32MiB"), ("ipc.messagelimit", "16MiB")]), None);
        assert_eq!(refusal(&[("rpc.memory", "32MiB"), ("ipc.disabled", "true")]), None);
    }

    #[test]
    fn defaults_fit_each_other() {
        assert_eq!(misfit(&Settings::default()), None);
    }
}
