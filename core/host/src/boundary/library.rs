//! Opens a library and reads its manifest.

use std::{
    mem::{MaybeUninit, offset_of, size_of},
    path::Path,
    ptr,
    sync::Arc,
};

use libloading::os::unix::{Library as OpenLibrary, RTLD_LOCAL, RTLD_NOW};
use tenon_api::{
    Capability,
    abi::{
        ABI_MAJOR, ABI_MINOR, COST_SLOW, FEATURE_LASTING_SUBSCRIPTIONS, METHOD_AHEAD, METHOD_ONLY_READS, METHOD_SECRET,
        MINOR_OF_ITEM_POSITIONS, PLUGIN_MAGIC, PLUGIN_SYMBOL, TenonMethod, TenonPlugin, TenonSubscription,
    },
    schema_hash,
};
use tenon_sdk::boundary::borrow;

use crate::{Cost, HostError, Manifest, Method, NamespaceRequirement, library_cache::CheckedLibrary};

/// End of the table of ABI minor number 0.
const SIZE_OF_MINOR_0: usize = offset_of!(TenonPlugin, run);

/// Maximum number of methods, and of subscriptions, of a plugin.
const MAX_ENTRIES: usize = 4096;

/// A library that passed the handshake and stays mapped.
#[derive(Clone)]
pub(super) struct Library {
    table: Arc<Table>,
}

struct Table {
    /// Address of the plugin's own table, unique among the mapped libraries.
    number: usize,
    /// The part of it that this node knows.
    functions: TenonPlugin,
}

// SAFETY: a copy of a static table that is never written; its functions may be called from any thread by the ABI.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// A mapping that lasts until it is dropped.
pub(super) struct Mapping {
    _library: OpenLibrary,
}

impl Library {
    /// Maps the copy of a checked library for the rest of the process, and performs the handshake.
    pub(super) fn open(file: &CheckedLibrary) -> Result<(Self, Manifest), HostError> {
        // SAFETY: never unmapped: a buffer, a waker or a pinned thread-local may point into it for the life of the
        // process.
        let (library, manifest, mapping) = unsafe { Self::map(file)? };
        let _ = mapping._library.into_raw();
        Ok((library, manifest))
    }

    /// As [`Library::open`], for as long as the mapping is kept.
    ///
    /// # Safety
    /// Everything that came out of the library must be dropped before the mapping.
    pub(super) unsafe fn map(file: &CheckedLibrary) -> Result<(Self, Manifest, Mapping), HostError> {
        let CheckedLibrary { path, copy, .. } = file;
        let not_a_plugin = |reason| HostError::NotAPlugin { path: path.clone(), reason };
        // SAFETY: loading runs the library's initialisers; an operator who names a plugin trusts it that far.
        let library = unsafe { OpenLibrary::open(Some(copy.as_os_str()), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| HostError::NotALibrary { path: path.clone(), reason: error.to_string() })?;
        // SAFETY: the symbol has this type by the ABI.
        let table = unsafe {
            let symbol = library
                .get::<unsafe extern "C" fn() -> *const TenonPlugin>(PLUGIN_SYMBOL)
                .map_err(|_| not_a_plugin("it does not export tenon_plugin_v1"))?;
            symbol()
        };
        if table.is_null() {
            return Err(not_a_plugin("tenon_plugin_v1 returned nothing: the plugin could not build its table"));
        }
        // SAFETY: not null; the table is static by the ABI, and only its first fields are read before `shake_hands` has
        // checked them.
        let manifest = unsafe { shake_hands(path, table)? };
        // SAFETY: `shake_hands` has checked the stated length of the table.
        let functions = unsafe { own_copy(table) };
        let table = Arc::new(Table { number: table.addr(), functions });
        Ok((Self { table }, manifest, Mapping { _library: library }))
    }

    /// Identifies the library among the mapped ones.
    pub(super) fn number(&self) -> usize {
        self.table.number
    }

    pub(super) fn table(&self) -> &TenonPlugin {
        &self.table.functions
    }
}

/// Checks magic, versions, size and messages, then reads the manifest.
///
/// # Safety
/// `table` points to a plugin's static table of at least the size that it states.
unsafe fn shake_hands(path: &Path, table: *const TenonPlugin) -> Result<Manifest, HostError> {
    let own_path = || path.to_owned();
    // SAFETY: these fields are at the beginning of the table in every version. They are read one by one, because the
    // rest of the table may be missing.
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
    let needed = SIZE_OF_MINOR_0;
    if size < needed {
        return Err(HostError::TableSize { path: own_path(), plugin: size, host: needed });
    }
    // SAFETY: the table has the length that it states, which was found sufficient.
    let table = &unsafe { own_copy(table) };
    let sends_frames = table.schema_hash != [0; 32];
    if sends_frames && table.schema_hash != schema_hash().0 {
        return Err(HostError::SchemaHash {
            path: own_path(),
            plugin: hex::encode(table.schema_hash),
            host: hex::encode(schema_hash()),
        });
    }
    // SAFETY: guaranteed by the caller.
    let manifest = unsafe { read_manifest(path, table, sends_frames)? };
    manifest.check().map_err(|what| HostError::Manifest { path: own_path(), what })?;
    Ok(manifest)
}

/// Copies a table that may be shorter than this ABI's. Missing functions are null.
///
/// # Safety
/// `table` points to a plugin's static table of at least the size that it states, and that is [`SIZE_OF_MINOR_0`] or
/// more.
unsafe fn own_copy(table: *const TenonPlugin) -> TenonPlugin {
    let mut copy = MaybeUninit::<TenonPlugin>::zeroed();
    // SAFETY: `size` is at the beginning of the table in every version.
    let has_all = unsafe { (*table).size } >= size_of::<TenonPlugin>();
    let known = if has_all { size_of::<TenonPlugin>() } else { SIZE_OF_MINOR_0 };
    // SAFETY: both are at least that long. Fields that minor number 0 lacks may be null by their type, and are zeroed.
    unsafe {
        ptr::copy_nonoverlapping(table.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), known);
        copy.assume_init()
    }
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
            only_reads: method.flags & METHOD_ONLY_READS != 0,
            is_ahead: method.flags & METHOD_AHEAD != 0,
            takes_secrets: method.flags & METHOD_SECRET != 0,
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
        needs: NamespaceRequirement::parse_list(&text(table.needs, "list of needs")?).map_err(malformed)?,
        has_lasting_subscriptions: table.features & FEATURE_LASTING_SUBSCRIPTIONS != 0,
        has_item_positions: table.abi_minor >= MINOR_OF_ITEM_POSITIONS,
        has_background: table.run.is_some(),
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
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(first, count) }
}
