//! The definitions, compiled.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};

use protox::prost_reflect::{DescriptorPool, EnumDescriptor, MessageDescriptor};

/// The folder with the definitions.
pub(crate) fn definitions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("definitions")
}

/// All files of the definitions, by name.
pub(crate) fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(definitions()).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// The compiler with all files read.
pub(crate) fn compiler() -> protox::Compiler {
    let mut compiler = protox::Compiler::new([definitions()]).unwrap();
    compiler.include_imports(true).include_source_info(false).open_files(files()).unwrap();
    compiler
}

/// The compiled definitions.
pub(crate) fn pool() -> DescriptorPool {
    compiler().descriptor_pool()
}

/// The registry.
pub(crate) fn registry(pool: &DescriptorPool) -> EnumDescriptor {
    pool.get_enum_by_name("tenon.device.MessageType").unwrap()
}

/// The body of an entry: the only top-level message whose name follows `MessageType_`.
pub(crate) fn body(pool: &DescriptorPool, entry: &str) -> MessageDescriptor {
    let name = entry.strip_prefix("MessageType_").unwrap();
    let found: Vec<_> = pool
        .all_messages()
        .filter(|message| message.name() == name && message.parent_message().is_none())
        .filter(|message| message.package_name().starts_with("tenon.device."))
        .collect();
    assert_eq!(found.len(), 1, "bodies named {name}");
    found[0].clone()
}

/// The messages that are later than the registry, by id.
pub(crate) fn later(pool: &DescriptorPool) -> Vec<(u32, MessageDescriptor)> {
    let number = pool.get_extension_by_name("tenon.device.later_id").unwrap();
    let of = |message: MessageDescriptor| {
        let options = message.options();
        options.has_extension(&number).then(|| (options.get_extension(&number).as_u32().unwrap(), message.clone()))
    };
    let mut later: Vec<_> = pool.all_messages().filter_map(of).collect();
    later.sort_by_key(|(id, _)| *id);
    later
}

/// Whether a message, or one that contains it, is marked as secret.
pub(crate) fn is_secret(message: &MessageDescriptor) -> bool {
    let mark = message.parent_pool().get_extension_by_name("tenon.device.secret").unwrap();
    let is_marked = message.options().get_extension(&mark).as_bool() == Some(true);
    is_marked || message.parent_message().is_some_and(|outer| is_secret(&outer))
}

/// A name in the form that the generator of bodies uses in Rust: `NEMGetAddress` becomes `NemGetAddress`.
pub(crate) fn rust_name(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut written = String::new();
    let mut starts_word = true;
    for (at, letter) in letters.iter().enumerate() {
        let is_followed_by_lower = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let follows_lower = at > 0 && letters[at - 1].is_lowercase();
        starts_word |= letter.is_uppercase() && (follows_lower || is_followed_by_lower);
        match letter {
            '_' => starts_word = true,
            letter if starts_word => {
                written.extend(letter.to_uppercase());
                starts_word = false;
            }
            letter => written.extend(letter.to_lowercase()),
        }
    }
    written
}
