//! The node's process: memory, threads, log. `docs/spec/rpc-node.md` 4.4, 4.5.
//!
//! The reference is written in Go. Methods that need Go's runtime are refused with an error that says so; members that
//! only Go could fill are 0.

use tenon_sdk::{prelude::*, shapes::JsonWriter};

use crate::{DebugContext, state::Integer};

/// Maximum length of the list of threads, in bytes, as in the reference.
const MAX_STACKS: usize = 1 << 20;

/// Numeric members of Go's memory statistics that have no meaning here.
const GO_ONLY_MEMBERS: [&str; 12] = [
    "StackInuse",
    "StackSys",
    "MSpanInuse",
    "MSpanSys",
    "MCacheInuse",
    "MCacheSys",
    "BuckHashSys",
    "GCSys",
    "OtherSys",
    "NextGC",
    "LastGC",
    "PauseTotalNs",
];

/// `debug_memStats`: the system's figures under Go's member names. Anonymous memory counts as allocated.
pub(crate) async fn memory(context: DebugContext) -> Result<JsonWriter, Failure> {
    let memory = context.call(GetMemoryStatistics).await?;
    let mut json = JsonWriter::with_capacity(6 << 10);
    let idle = memory.mapped.saturating_sub(memory.anonymous);
    let figures = [
        ("Alloc", memory.anonymous),
        ("TotalAlloc", memory.peak),
        ("Sys", memory.resident),
        ("Lookups", 0),
        ("Mallocs", 0),
        ("Frees", 0),
        ("HeapAlloc", memory.anonymous),
        ("HeapSys", memory.mapped),
        ("HeapIdle", idle),
        ("HeapInuse", memory.anonymous),
        ("HeapReleased", 0),
        ("HeapObjects", 0),
    ];
    json.begin_object();
    for (name, figure) in figures.into_iter().chain(GO_ONLY_MEMBERS.map(|name| (name, 0))) {
        json.key(name).raw(&figure.to_string());
    }
    for name in ["PauseNs", "PauseEnd"] {
        json.key(name).raw(&format!("[{}]", ["0"; 256].join(",")));
    }
    for name in ["NumGC", "NumForcedGC", "GCCPUFraction"] {
        json.key(name).raw("0");
    }
    for name in ["EnableGC", "DebugGC"] {
        json.key(name).boolean(false);
    }
    let size = r#"{"Size":0,"Mallocs":0,"Frees":0}"#;
    json.key("BySize").raw(&format!("[{}]", [size; 61].join(",")));
    json.end_object();
    Ok(json)
}

/// `debug_gcStats`: all zero, because there is no garbage collector.
pub(crate) async fn collections(_context: DebugContext) -> Result<JsonWriter, Failure> {
    let nothing = concat!(
        r#"{"LastGC":"1970-01-01T00:00:00Z","NumGC":0,"PauseTotal":0,"#,
        r#""Pause":[],"PauseEnd":[],"PauseQuantiles":null}"#
    );
    Ok(JsonWriter::from_json(nothing.to_owned()))
}

/// `debug_stacks`: the state of every thread, from the system; a Rust program cannot show the stacks of other threads.
pub(crate) async fn stacks(context: DebugContext) -> Result<String, Failure> {
    let threads = context.call(ListThreads).await?;
    let mut text = String::new();
    for thread in threads {
        let waits = thread.waits_in.map(|place| format!(" in {place}")).unwrap_or_default();
        text.push_str(&format!(
            "thread {} [{}]: {}{waits}, {} ms of processor time\n",
            thread.id, thread.name, thread.state, thread.cpu_milliseconds
        ));
        if text.len() > MAX_STACKS {
            let end = (0..=MAX_STACKS).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
            text.truncate(end);
            break;
        }
    }
    Ok(text)
}

/// `debug_freeOSMemory`: does nothing. The allocator returns unused memory by itself within seconds, and there is no
/// collector to run.
pub(crate) async fn free_memory(_context: DebugContext) -> Result<(), Failure> {
    Ok(())
}

/// `debug_setGCPercent`.
pub(crate) async fn set_collector_target(_context: DebugContext, _percent: Integer) -> Result<(), Failure> {
    Err(Failure::server("debug_setGCPercent: this node has no garbage collector whose target could be set"))
}

/// `debug_verbosity`: from 0 (nothing) to 5 (everything). The reference's scale differs.
pub(crate) async fn set_verbosity(context: DebugContext, level: Integer) -> Result<(), Failure> {
    let level = u8::try_from(level.0.clamp(0, 5)).unwrap_or(5);
    context.call(SetLogLevel { level }).await
}

/// `debug_vmodule`.
pub(crate) async fn set_modules(context: DebugContext, patterns: String) -> Result<(), Failure> {
    let modules =
        module_levels(&patterns).ok_or_else(|| Failure::server("expect comma-separated list of filename=N"))?;
    context.call(SetLogModules { modules }).await
}

/// Translates patterns of source files into prefixes of module paths: `storage/*=5`, `tenon_storage/write.rs=4`. Empty
/// patterns and those with level 0 are dropped.
fn module_levels(patterns: &str) -> Option<Vec<(String, u8)>> {
    let mut modules = Vec::new();
    for item in patterns.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (pattern, level) = item.split_once('=')?;
        let level = level.trim().parse::<i64>().ok()?;
        let path = module_path(pattern.trim())?;
        if level > 0 {
            modules.push((path, u8::try_from(level).unwrap_or(u8::MAX)));
        }
    }
    Some(modules)
}

fn module_path(pattern: &str) -> Option<String> {
    let pattern = pattern.strip_suffix(".rs").or_else(|| pattern.strip_suffix(".go")).unwrap_or(pattern);
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty() && *part != "*").collect();
    let is_name = |part: &&str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if parts.is_empty() || !parts.iter().all(is_name) {
        return None;
    }
    let path = parts.join("::");
    Some(if path.starts_with("tenon") { path } else { format!("tenon_{path}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_files_become_module_paths() {
        let cases = [
            ("", Some(vec![])),
            ("storage=5", Some(vec![("tenon_storage", 5)])),
            ("tenon_storage/write/*=4, ,pool.rs=0", Some(vec![("tenon_storage::write", 4)])),
            ("consensus/v2.go=3,eth=4", Some(vec![("tenon_consensus::v2", 3), ("tenon_eth", 4)])),
            ("storage", None),
            ("storage=x", None),
            ("a b=3", None),
            ("*=3", None),
        ];
        for (patterns, expected) in cases {
            let found = module_levels(patterns);
            let expected = expected
                .map(|list| list.into_iter().map(|(path, level): (&str, u8)| (path.to_owned(), level)).collect());
            assert_eq!(found, expected, "{patterns}");
        }
    }
}
