//! Compares the C header with the Rust definitions: a program compiled with the header prints sizes, offsets and
//! constants, and they are compared one by one.

#![allow(clippy::expect_used, reason = "a failed setup fails the test")]

use std::{
    env, fs,
    mem::{offset_of, size_of},
    path::Path,
    process::Command,
};

use tenon_api::abi::*;

/// Expectations as (C expression, value by Rust).
type Expectations = Vec<(String, u64)>;

macro_rules! structures {
    ($($type:ident { $($field:ident $(as $name:literal)?),* $(,)? })*) => {{
        let mut expected: Expectations = Vec::new();
        $(
            expected.push((format!("sizeof({})", stringify!($type)), size_of::<$type>() as u64));
            $(
                let mut name = stringify!($field);
                $(name = $name;)?
                let _ = &mut name;
                expected.push((format!("offsetof({}, {name})", stringify!($type)), offset_of!($type, $field) as u64));
            )*
        )*
        expected
    }};
}

fn expectations() -> Expectations {
    let mut expected = structures! {
        TenonSlice { data, len }
        TenonBuffer { data, len, capacity, free }
        TenonReply { code, body, data }
        TenonWaker { data, vtable }
        TenonWakerVtable { clone, wake, wake_by_ref, drop }
        TenonFuture { state, poll, drop }
        TenonStream { state, poll, drop }
        TenonMethod { name, cost, flags, description }
        TenonSubscription { name }
        TenonCallContext { call, namespaces, deadline_nanos, client, deadline }
        TenonHost { size, abi_minor, reserved, state, call, subscribe, sleep, log, now_nanos, hold, call_json }
        TenonPlugin {
            magic, abi_major, abi_minor, needs_minor, reserved, size, features, schema_hash, name,
            namespace as "namespace_", version, built_with, capabilities, needs, methods, method_count,
            subscriptions, subscription_count, start, call, subscribe, export_state, stop, run,
        }
    };
    let constants = [
        ("TENON_PLUGIN_MAGIC", PLUGIN_MAGIC),
        ("TENON_ABI_MAJOR", u64::from(ABI_MAJOR)),
        ("TENON_ABI_MINOR", u64::from(ABI_MINOR)),
        ("TENON_MINOR_OF_ITEM_POSITIONS", u64::from(MINOR_OF_ITEM_POSITIONS)),
        ("TENON_MINOR_OF_DEADLINES", u64::from(MINOR_OF_DEADLINES)),
        // Widened to 64 bits with its sign, as in C.
        ("TENON_CODE_CRASHED", i64::from(CODE_CRASHED) as u64),
        ("TENON_CODE_CALLEE_CRASHED", i64::from(CODE_CALLEE_CRASHED) as u64),
        ("TENON_POLL_PENDING", POLL_PENDING as u64),
        ("TENON_POLL_READY", POLL_READY as u64),
        ("TENON_POLL_END", POLL_END as u64),
        ("TENON_COST_FAST", u64::from(COST_FAST)),
        ("TENON_COST_SLOW", u64::from(COST_SLOW)),
    ];
    expected.extend(constants.map(|(name, value)| (name.to_owned(), value)));
    expected
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_header_has_the_layout_of_the_rust_definitions() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("layout.c"), folder.join("layout"));
    let expected = expectations();
    let prints: String = expected
        .iter()
        .map(|(expression, _)| format!("    printf(\"%llu\\n\", (unsigned long long)({expression}));\n"))
        .collect();
    let text =
        format!("#include <stdio.h>\n#include \"tenon_plugin.h\"\nint main(void) {{\n{prints}    return 0;\n}}\n");
    fs::write(&source, text).expect("the folder of test files is writable");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut words = compiler.split_whitespace();
    let mut compile = Command::new(words.next().expect("CC names a compiler"));
    compile.args(words).args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]);
    compile.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include")).arg(&source).arg("-o").arg(&program);

    run(&mut compile);
    let printed = run(&mut Command::new(&program));

    let values: Vec<u64> = printed.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(values.len(), expected.len());
    for ((expression, by_rust), by_c) in expected.iter().zip(values) {
        assert_eq!(by_c, *by_rust, "{expression}");
    }
    assert_eq!(PLUGIN_SYMBOL, b"tenon_plugin_v1\0");
}
