//! The limits of one plugin, and which of them apply where it runs.

use std::time::Duration;

use tenon_api::messages::ModuleLimits;

use crate::{Isolation, IsolationOptions};

/// Limits in the settings of one plugin; missing ones are the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginLimits {
    /// Private memory, in bytes. Applies in its own process.
    pub memory: Option<u64>,
    /// Processor time of one call. Applies in its own process.
    pub call_time: Option<Duration>,
    /// Concurrent calls; more are refused at once with `-32005`. Applies everywhere.
    pub calls: Option<u32>,
    /// Restarts of its process per minute after unexpected ends. Applies in its own process.
    pub restarts: Option<u32>,
    /// Average log lines per second; bursts may have four times as many. Applies everywhere.
    pub log_lines: Option<u32>,
}

impl PluginLimits {
    /// The options of its process, with these limits.
    pub fn apply_to(self, options: &IsolationOptions) -> IsolationOptions {
        IsolationOptions {
            memory: self.memory.unwrap_or(options.memory),
            processor_time: self.call_time.unwrap_or(options.processor_time),
            restarts: self.restarts.unwrap_or(options.restarts),
            log_lines: self.log_lines.unwrap_or(options.log_lines),
            ..options.clone()
        }
    }

    /// The limits that apply to a plugin with this isolation.
    pub fn in_force(self, isolation: Isolation, processes: Option<&IsolationOptions>) -> ModuleLimits {
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

    /// Limits in the settings that do not apply where the plugin runs, one per line.
    pub fn ineffective(self, isolation: Isolation) -> Vec<String> {
        if isolation == Isolation::Process {
            return Vec::new();
        }
        let named = [
            ("memory", self.memory.is_some()),
            ("call-time", self.call_time.is_some()),
            ("restarts", self.restarts.is_some()),
        ];
        let ineffective = named.into_iter().filter(|(_, is_named)| *is_named);
        ineffective
            .map(|(name, _)| {
                format!("limits.{name} has no effect in the node's own process; it needs isolation = \"process\"")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_limits_are_the_hosts_and_ineffective_ones_are_named() {
        let limits =
            PluginLimits { memory: Some(1 << 20), calls: Some(3), restarts: Some(1), ..PluginLimits::default() };
        let options = IsolationOptions::of_this_program();

        let process = limits.in_force(Isolation::Process, Some(&options));
        let in_process = limits.in_force(Isolation::InProcess, Some(&options));

        assert_eq!((process.memory, process.calls, process.restarts), (Some(1 << 20), Some(3), Some(1)));
        assert_eq!((process.call_millis, process.log_lines), (Some(5000), Some(50)));
        assert_eq!(in_process, ModuleLimits { calls: Some(3), ..ModuleLimits::default() });
        assert_eq!(limits.ineffective(Isolation::Process), [""; 0]);
        let names: Vec<_> = limits.ineffective(Isolation::InProcess);
        assert!(names[0].starts_with("limits.memory has no effect") && names[1].starts_with("limits.restarts"));
        assert_eq!(names.len(), 2);
    }
}
