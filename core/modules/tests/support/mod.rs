//! The tests' shared libraries, and a host for them.

#![allow(dead_code, reason = "every test program uses a part of it")]
#![allow(clippy::expect_used, reason = "a failed setup fails the test")]

pub(crate) mod processes;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use tenon_api::messages::{LibraryDetails, ModuleInfo, PluginDetails};
use tenon_bus::{Bus, CallContext};
use tenon_host::PluginFolder;
use tenon_modules::{ModuleOptions, ModuleRegister};

/// The shared library of a Rust plugin: a dev-dependency, whose `.so` cargo puts next to the test program.
pub(crate) fn rust_plugin(crate_name: &str) -> PathBuf {
    let library = libraries().join(format!("lib{}.so", crate_name.replace('-', "_")));
    assert!(library.exists(), "{} is a dev-dependency of tenon-modules and so was built", library.display());
    library
}

/// The folder with the shared libraries of the dev-dependencies.
pub(crate) fn libraries() -> PathBuf {
    let program = env::current_exe().expect("the test program has a path");
    program.parent().expect("the test program stands in a folder").to_owned()
}

/// Compiles a plugin in C into `folder`. `source` is relative to the root of the project.
pub(crate) fn c_plugin(folder: &Path, source: &str, flags: &[&str]) -> PathBuf {
    c_library(&folder.join("libplugin_in_c.so"), source, flags)
}

/// Compiles a plugin in C to this file.
pub(crate) fn c_library(library: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let library = library.to_owned();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut words = compiler.split_whitespace();
    let mut compile = Command::new(words.next().expect("CC names a compiler"));
    compile.args(words).args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"]);
    compile.arg(root.join("plugins/sdk/include")).args(flags).arg("-o").arg(&library).arg(root.join(source));
    let output = compile.output().expect("the C compiler starts");
    assert!(output.status.success(), "{compile:?}: {}", String::from_utf8_lossy(&output.stderr));
    library
}

/// Compiles a plugin in C++ to a file in this folder; `None` if there is no C++ compiler.
pub(crate) fn cpp_plugin(folder: &Path, source: &str) -> Option<PathBuf> {
    let library = folder.join("libplugin_in_cpp.so");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut compile =
        Command::new(env::var("CXX").ok().filter(|words| !words.contains(' ')).unwrap_or_else(|| "c++".to_owned()));
    compile.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"]);
    compile.arg(root.join("plugins/sdk/include")).arg("-o").arg(&library).arg(root.join(source));
    let output = compile.output().ok()?;
    assert!(output.status.success(), "{compile:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(library)
}

/// A host over a bus, with a folder that is removed with it.
pub(crate) struct TestModules {
    pub(crate) modules: Arc<ModuleRegister>,
    pub(crate) bus: Bus,
    pub(crate) folder: TempDir,
}

impl TestModules {
    pub(crate) fn new() -> Self {
        Self::with_options(|_| {})
    }

    pub(crate) fn with_options(change: impl FnOnce(&mut ModuleOptions)) -> Self {
        Self::in_folder(tempfile::tempdir().expect("a folder for the test"), change)
    }

    /// A host over the folder of another host.
    pub(crate) fn over(folder: TempDir) -> Self {
        Self::in_folder(folder, |_| {})
    }

    fn in_folder(folder: TempDir, change: impl FnOnce(&mut ModuleOptions)) -> Self {
        let mut options = ModuleOptions::new(folder.path().join("cache"), Duration::from_secs(2), 1024);
        options.folders = vec![PluginFolder::new(folder.path()), PluginFolder::new(libraries())];
        // Trusts every library that a test loads; tests about trust change this.
        options.vouches_for_all = true;
        change(&mut options);
        let bus = Bus::new();
        Self { modules: ModuleRegister::new(bus.clone(), options), bus, folder }
    }

    /// A host with the misbehaving plugin.
    pub(crate) fn with_misbehaving() -> Self {
        let test = Self::new();
        test.modules.load(&rust_plugin("tenon-test-misbehaving"), "").expect("it loads");
        test
    }

    /// Answers the node's version on the bus.
    pub(crate) fn answer_version(&self) {
        let answer = |_: tenon_api::messages::GetClientVersion, _: &CallContext| Ok("Tenon/test".to_owned());
        self.bus.handle_read(answer).expect("no other handler");
    }
}

/// The details of a plugin.
pub(crate) fn plugin_of(info: &ModuleInfo) -> &PluginDetails {
    info.plugin().expect("it is a plugin")
}

/// The details of a plugin's library.
pub(crate) fn library_of(info: &ModuleInfo) -> &LibraryDetails {
    plugin_of(info).library.as_ref().expect("it has been opened")
}

/// The process of a plugin, if it has one now.
pub(crate) fn process_of(test: &TestModules, name: &str) -> Option<u32> {
    plugin_of(&test.modules.info(name).expect("it is known")).process
}

/// The text of a result.
pub(crate) fn text(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8(bytes.as_ref().to_vec()).expect("JSON is UTF-8")
}
