//! One load cycle of a library in this process: map, start, call, stop, unmap.

use std::task::{Context as TaskContext, Poll, Waker};

use tenon_api::Topic;
use tenon_bus::CallContext;
use tenon_sdk::Failure;
use tenon_sdk::boundary::{ExportedFuture, ExportedStream};

use super::{Backend, LocalPlugin, library::Library};
use crate::{Caller, library_cache::CheckedLibrary, plugin_interface::PluginInstance};

/// Backend that refuses everything.
struct NoBus;

impl Backend for NoBus {
    fn call_bus(&self, _: Option<&CallContext>, _: Topic, _: u32, _: &[u8]) -> ExportedFuture {
        ExportedFuture::ready(Err(no_bus()))
    }

    fn subscribe(&self, _: Topic, _: u32) -> ExportedStream {
        ExportedStream::refused(no_bus())
    }

    fn call_json(&self, _: Option<&CallContext>, _: &[u8], _: &[u8]) -> ExportedFuture {
        ExportedFuture::ready(Err(no_bus()))
    }

    fn log(&self, _: u32, _: &str) {}

    fn stop(&self) {}
}

fn no_bus() -> Failure {
    Failure::server("a plugin that is being checked has no bus")
}

/// Runs one load cycle. Calls the methods with these numbers.
///
/// # Errors
/// Why the library was refused or did not start.
pub fn run_load_cycle(file: &CheckedLibrary, settings: &str, methods: &[u32]) -> Result<(), String> {
    // SAFETY: everything that comes out of the library is dropped in `live`, which returns no part of it.
    let (library, manifest, mapping) = unsafe { Library::map(file) }.map_err(|error| error.to_string())?;
    let plugin = LocalPlugin { library, manifest };
    let kinds = plugin.manifest.subscriptions.len();
    let started = plugin.start_with(Box::new(NoBus), settings, &[]);
    let outcome = match started {
        Ok(instance) => {
            live(instance, methods, kinds);
            Ok(())
        }
        Err(failure) => Err(failure.to_string()),
    };
    drop(mapping);
    outcome
}

fn live(instance: Box<dyn PluginInstance>, methods: &[u32], kinds: usize) {
    let (caller, mut task) = (Caller::local(), TaskContext::from_waker(Waker::noop()));
    for method in methods {
        // Polled once, then dropped: this also tests the cancellation of a call that waits.
        let _: Poll<_> = instance.call_plugin(*method, Some("[]"), &caller).poll_reply(&mut task);
    }
    for kind in (0..).take(kinds) {
        let _: Poll<_> = instance.subscribe(kind, Some("[]"), &caller).poll_item(&mut task);
    }
    drop(instance.export_state());
}
