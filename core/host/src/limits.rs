//! The bounds of one plugin, and which of them hold where it runs.

use std::time::Duration;

use tenon_api::messages::ModuleLimits;

use crate::{Isolation, IsolationOptions};

/// Bounds that the settings give one plugin; those left out are the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginLimits {
    /// Memory of its own, bytes. Holds in a process of its own.
    pub memory: Option<u64>,
    /// Processor time of one call. Holds in a process of its own.
    pub call_time: Option<Duration>,
    /// Calls at a time; more are refused at once with `-32005`. Holds everywhere.
    pub calls: Option<u32>,
    /// How many times a minute its process is started again after it ended by itself. Holds in a process of its own.
    pub restarts: Option<u32>,
    /// Lines a second in the log, on average; four times as many may come at once. Holds everywhere.
    pub log_lines: Option<u32>,
}

impl PluginLimits {
    /// How its process is run.
    pub(crate) fn apply_to(self, options: &IsolationOptions) -> IsolationOptions {
        IsolationOptions {
            memory: self.memory.unwrap_or(options.memory),
            processor_time: self.call_time.unwrap_or(options.processor_time),
            restarts: self.restarts.unwrap_or(options.restarts),
            log_lines: self.log_lines.unwrap_or(options.log_lines),
            ..options.clone()
        }
    }

    /// The bounds that hold for a plugin that runs like this.
    pub(crate) fn in_force(self, isolation: Isolation, processes: Option<&IsolationOptions>) -> ModuleLimits {
        let calls = self.calls.map(u64::from);
        match (isolation, processes) {
            (Isolation::Process, Some(options)) => {
                let options = self.apply_to(options);
                ModuleLimits {
                    memory: Some(options.memory),
                    call_millis: u64::try_from(options.processor_time.as_millis()).ok(),
                    calls,
                    restarts: Some(options.restarts),
                    log_lines: Some(options.log_lines),
                }
            }
            _ => ModuleLimits { calls, log_lines: self.log_lines, ..ModuleLimits::default() },
        }
    }

    /// Bounds that the settings name and that do not hold where the plugin runs, a line each.
    pub(crate) fn not_held(self, isolation: Isolation) -> Vec<String> {
        if isolation == Isolation::Process {
            return Vec::new();
        }
        let named = [
            ("memory", self.memory.is_some()),
            ("call-time", self.call_time.is_some()),
            ("restarts", self.restarts.is_some()),
        ];
        let not_held = named.into_iter().filter(|(_, is_named)| *is_named);
        not_held
            .map(|(name, _)| {
                format!("limits.{name} does not hold in the node's own process; it needs isolation = \"process\"")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_the_hosts_and_what_can_not_hold_is_named() {
        let limits =
            PluginLimits { memory: Some(1 << 20), calls: Some(3), restarts: Some(1), ..PluginLimits::default() };
        let options = IsolationOptions::of_this_program();

        let process = limits.in_force(Isolation::Process, Some(&options));
        let in_process = limits.in_force(Isolation::InProcess, Some(&options));

        assert_eq!((process.memory, process.calls, process.restarts), (Some(1 << 20), Some(3), Some(1)));
        assert_eq!((process.call_millis, process.log_lines), (Some(5000), Some(50)));
        assert_eq!(in_process, ModuleLimits { calls: Some(3), ..ModuleLimits::default() });
        assert_eq!(limits.not_held(Isolation::Process), [""; 0]);
        let names: Vec<_> = limits.not_held(Isolation::InProcess);
        assert!(names[0].starts_with("limits.memory does not hold") && names[1].starts_with("limits.restarts"));
        assert_eq!(names.len(), 2);
    }
}
