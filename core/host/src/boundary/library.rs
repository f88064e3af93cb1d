//! Opens a library and reads what it says about itself.

use std::{
    fs,
    io::Write,
    mem::size_of,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use libloading::os::unix::{Library as OpenLibrary, RTLD_LOCAL, RTLD_NOW};
use sha2::{Digest, Sha256};
use tenon_api::{
    Capability,
    abi::{ABI_MAJOR, ABI_MINOR, COST_SLOW, PLUGIN_MAGIC, PLUGIN_SYMBOL, TenonMethod, TenonPlugin, TenonSubscription},
    schema_hash,
};
use tenon_sdk::boundary::borrow;

use crate::{Cost, HostError, Manifest, Method};

/// The most methods, and the most subscriptions, that a plugin can list.
const MAX_ENTRIES: usize = 4096;

/// A library that passed the handshake. It stays mapped for the rest of the process.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    table: &'static TenonPlugin,
}

// SAFETY: a static table that nobody writes; its functions may be called from any thread by the ABI.
unsafe impl Send for Library {}

impl Library {
    /// Copies the library into `cache_folder`, opens the copy and shakes hands. Gives also the hash of its
    /// content.
    pub(crate) fn open(path: &Path, cache_folder: &Path) -> Result<(Self, Manifest, String), HostError> {
        let (copy, hash) = copy_by_content(path, cache_folder)?;
        let not_a_plugin = |reason| HostError::NotAPlugin { path: path.to_owned(), reason };
        // SAFETY: loading runs the library's initialisers; an operator who names a plugin trusts it that far.
        let library = unsafe { OpenLibrary::open(Some(copy.as_os_str()), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| HostError::NotALibrary { path: path.to_owned(), reason: error.to_string() })?;
        // SAFETY: the symbol has this type by the ABI.
        let table = unsafe {
            let symbol = library
                .get::<unsafe extern "C" fn() -> *const TenonPlugin>(PLUGIN_SYMBOL)
                .map_err(|_| not_a_plugin("it does not export tenon_plugin_v1"))?;
            symbol()
        };
        if table.is_null() {
            return Err(not_a_plugin("tenon_plugin_v1 gave nothing: building its table failed"));
        }
        // SAFETY: not null; the table is static by the ABI, and nothing beyond the first fields is read before
        // `shake_hands` has seen them.
        let manifest = unsafe { shake_hands(path, table)? };
        // Never unmapped: a buffer, a waker or a pinned thread-local may point into it for ever.
        let _ = library.into_raw();
        // SAFETY: `shake_hands` saw that the table is as long as ours; it is static, and so stays.
        Ok((Self { table: unsafe { &*table } }, manifest, hash))
    }

    pub(super) fn table(self) -> &'static TenonPlugin {
        self.table
    }
}

/// Copies a file to a path that carries the hash of its content. A path that exists with that content is used
/// as it is: the file of a loaded library must never be written (`spec/dependencies.md` 4.3).
fn copy_by_content(path: &Path, cache_folder: &Path) -> Result<(PathBuf, String), HostError> {
    let failed = |path: &Path, action| {
        let path = path.to_owned();
        move |reason| HostError::File { path, action, reason }
    };
    let bytes = fs::read(path).map_err(failed(path, "cannot read the library"))?;
    let hash = hex::encode(Sha256::digest(&bytes));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(cache_folder)
        .map_err(failed(cache_folder, "cannot create the folder for loaded libraries"))?;
    let folder = cache_folder.canonicalize().map_err(failed(cache_folder, "cannot find the folder"))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let target = folder.join(format!("{stem}-{hash}.so"));
    if fs::read(&target).is_ok_and(|present| present == bytes) {
        return Ok((target, hash));
    }
    // Written beside and renamed, so that no other process ever sees half a file under the final name.
    let unfinished = folder.join(format!(".{stem}-{hash}.{}", std::process::id()));
    let write = || {
        let _ = fs::remove_file(&unfinished);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&unfinished)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, &target)
    };
    write().map_err(failed(&target, "cannot copy the library"))?;
    remove_other_builds(&folder, &stem, &target);
    Ok((target, hash))
}

/// Removes copies of other builds of the same library, or the folder would grow with every build. One of them
/// may be loaded: its mapping outlives its name.
fn remove_other_builds(folder: &Path, stem: &str, current: &Path) {
    // What cannot be removed does no harm.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path != current) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let hash = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".so"));
        if hash.is_some_and(|hash| hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit())) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Checks magic, versions, size and messages, then reads the rest.
///
/// # Safety
/// `table` points to a plugin's static table of at least the size that it states.
unsafe fn shake_hands(path: &Path, table: *const TenonPlugin) -> Result<Manifest, HostError> {
    let own_path = || path.to_owned();
    // SAFETY: these stand at the beginning in every version. Field by field, because the rest may be missing.
    let (magic, major, minor, needs_minor, size) =
        unsafe { ((*table).magic, (*table).abi_major, (*table).abi_minor, (*table).needs_minor, (*table).size) };
    if magic != PLUGIN_MAGIC {
        return Err(HostError::NotAPlugin { path: own_path(), reason: "its table has the wrong magic number" });
    }
    if major != ABI_MAJOR || needs_minor > ABI_MINOR {
        return Err(HostError::AbiVersion {
            path: own_path(),
            plugin: format!("{major}.{}", if major == ABI_MAJOR { needs_minor } else { minor }),
            host: format!("{ABI_MAJOR}.{ABI_MINOR}"),
        });
    }
    let needed = size_of::<TenonPlugin>();
    if size < needed {
        return Err(HostError::TableSize { path: own_path(), plugin: size, host: needed });
    }
    // SAFETY: long enough, as it says.
    let table = unsafe { &*table };
    let sends_frames = table.schema_hash != [0; 32];
    if sends_frames && table.schema_hash != schema_hash().0 {
        return Err(HostError::SchemaHash {
            path: own_path(),
            plugin: hex::encode(table.schema_hash),
            host: hex::encode(schema_hash()),
        });
    }
    // SAFETY: passed on.
    let manifest = unsafe { read_manifest(path, table, sends_frames)? };
    manifest.check().map_err(|what| HostError::Manifest { path: own_path(), what })?;
    Ok(manifest)
}

/// # Safety
/// The slices and lists of `table` are static and as long as they say.
unsafe fn read_manifest(path: &Path, table: &TenonPlugin, sends_frames: bool) -> Result<Manifest, HostError> {
    let malformed = |what: String| HostError::Manifest { path: path.to_owned(), what };
    let text = |slice, what: &str| {
        // SAFETY: static by the ABI.
        let bytes = unsafe { borrow(slice) };
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| malformed(format!("its {what} is not UTF-8")))
    };
    if table.method_count > MAX_ENTRIES || table.subscription_count > MAX_ENTRIES {
        return Err(malformed(format!("it lists more than {MAX_ENTRIES} methods or subscriptions")));
    }
    // SAFETY: static lists of these lengths by the ABI.
    let (methods, subscriptions): (&[TenonMethod], &[TenonSubscription]) =
        unsafe { (list(table.methods, table.method_count), list(table.subscriptions, table.subscription_count)) };
    let method = |method: &TenonMethod| {
        let description = text(method.description, "method description")?;
        Ok(Method {
            name: text(method.name, "method name")?,
            cost: if method.cost >= COST_SLOW { Cost::Slow } else { Cost::Fast },
            description: if description.is_empty() { "{}".to_owned() } else { description },
        })
    };
    let capability = |name: &str| {
        Capability::from_name(name)
            .ok_or_else(|| HostError::UnknownCapability { path: path.to_owned(), capability: name.to_owned() })
    };
    let capabilities = text(table.capabilities, "list of capabilities")?;
    let wanted = capabilities.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(Manifest {
        name: text(table.name, "name")?,
        namespace: text(table.namespace, "namespace")?,
        version: text(table.version, "version")?,
        built_with: text(table.built_with, "build")?,
        capabilities: wanted.map(capability).collect::<Result<_, _>>()?,
        needs: text(table.needs, "list of needs")?,
        methods: methods.iter().map(method).collect::<Result<_, _>>()?,
        subscriptions: subscriptions
            .iter()
            .map(|kind| text(kind.name, "subscription name"))
            .collect::<Result<_, _>>()?,
        sends_frames,
    })
}

/// # Safety
/// `first` is null or points to `count` items that live as long as the process.
unsafe fn list<T>(first: *const T, count: usize) -> &'static [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: vouched for by the caller.
    unsafe { std::slice::from_raw_parts(first, count) }
}
