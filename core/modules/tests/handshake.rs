//! Which libraries are loaded, and which are refused with which error.

mod support;

use std::fs;

use support::{TestModules, c_plugin, library_of, plugin_of, rust_plugin, text};
use tenon_api::{
    Capability,
    messages::{ModuleChange, ModuleTerms},
};
use tenon_host::{Caller, HostError};
use tenon_modules::ModuleError;

const BROKEN: &str = "tests/plugins/broken.c";

/// The error of loading `broken.c`, compiled with these flags.
fn refusal(flags: &[&str]) -> ModuleError {
    let test = TestModules::new();
    let library = c_plugin(test.folder.path(), BROKEN, flags);
    let error = test.modules.load(&library, "").err().unwrap_or_else(|| panic!("{flags:?} is refused"));
    assert!(test.modules.router().namespaces().is_empty());
    error
}

#[test]
fn every_mismatch_is_refused_by_its_name() {
    let cases: [(&[&str], &str); 9] = [
        (&["-DMAGIC=7"], "not a Tenon plugin: its table has the wrong magic number"),
        (&["-DMAJOR=2"], "built for plugin ABI 2.0, this node has 1.6"),
        (&["-DNEEDS_MINOR=7"], "built for plugin ABI 1.7, this node has 1.6"),
        (&["-DSIZE=100"], "its table has 100 bytes, but that of ABI 1.0 has"),
        (&["-DSCHEMA=0xab"], "its messages have schema abababab"),
        (&["-DNAMESPACE=\"a b\""], "namespace \"a b\" is malformed"),
        (&["-DCAPABILITIES=\"ReadChain,Fly\""], "it requests the capability Fly, which this node does not know"),
        (&["-DMETHODS=100000"], "it lists more than 4096 methods"),
        (&["-DNO_TABLE=1"], "tenon_plugin_v1 returned nothing"),
    ];
    for (flags, words) in cases {
        let error = refusal(flags).to_string();

        assert!(error.contains(words), "{flags:?}: {error}");
        assert!(error.contains("libplugin_in_c.so"), "it names the file: {error}");
    }
}

#[tokio::test]
async fn long_names_and_paths_are_repeated_only_at_their_beginning() {
    let test = TestModules::new();
    let long = "x".repeat(1 << 20);
    let load =
        |path: Option<String>| ModuleChange::Load { path, settings: None, is_enabled: true, terms: ModuleTerms::NONE };

    let unknown = test.modules.info(&long).unwrap_err();
    let misnamed = test.modules.change(&long, load(None), true).await.unwrap_err();
    let misplaced = test.modules.change("long", load(Some(format!("/{long}.so"))), true).await.unwrap_err();

    for error in [unknown, misnamed, misplaced].map(|error| error.to_string()) {
        assert!(error.len() < 500 && error.contains('…'), "{error}");
    }
}

#[test]
fn refuses_files_that_are_not_libraries() {
    let test = TestModules::new();
    let (missing, garbage) = (test.folder.path().join("missing.so"), test.folder.path().join("garbage.so"));
    fs::write(&garbage, "no ELF").unwrap();
    let source = test.folder.path().join("empty.c");
    fs::write(&source, "int nothing;").unwrap();
    let empty = c_plugin(test.folder.path(), &source.to_string_lossy(), &[]);

    assert!(matches!(test.modules.load(&missing, ""), Err(ModuleError::Host(HostError::File { .. }))));
    assert!(matches!(test.modules.load(&garbage, ""), Err(ModuleError::Host(HostError::NotALibrary { .. }))));
    let error = test.modules.load(&empty, "").unwrap_err().to_string();
    assert!(error.contains("it does not export tenon_plugin_v1"), "{error}");
}

#[test]
fn a_plugin_can_say_no_and_a_crash_at_start_is_contained() {
    let test = TestModules::new();
    let library = rust_plugin("tenon-test-misbehaving");

    let refused = test.modules.load(&library, r#"{"please":"refuse"}"#).unwrap_err().to_string();
    let crashed = test.modules.load(&library, r#"{"please":"panic"}"#).unwrap_err().to_string();

    assert!(refused.ends_with("did not start: told to refuse"), "{refused}");
    assert!(crashed.ends_with("did not start: the plugin crashed at start"), "{crashed}");
    assert!(test.modules.load(&library, "").is_ok());
}

#[test]
fn one_namespace_has_one_plugin() {
    let test = TestModules::with_misbehaving();

    let error = test.modules.load(&rust_plugin("tenon-test-misbehaving"), "").unwrap_err().to_string();

    assert!(
        error.contains("namespace bad is served by tenon_test_misbehaving already; disable that module first"),
        "{error}"
    );
}

#[test]
fn a_library_is_loaded_from_a_copy_named_by_its_content() {
    let test = TestModules::new();
    let original = rust_plugin("tenon-example-hello");

    let info = test.modules.load(&original, "").unwrap();

    let copy = test.folder.path().join(format!("cache/libtenon_example_hello-{}.so", library_of(&info).content_hash));
    assert_eq!(fs::read(copy).unwrap(), fs::read(original).unwrap());
    assert_eq!(fs::read_dir(test.folder.path().join("cache")).unwrap().count(), 1, "nothing else is left behind");
    assert_eq!(
        (library_of(&info).namespace.as_str(), library_of(&info).version.as_str(), library_of(&info).methods.len()),
        ("hello", "1.0", 1)
    );
    assert!(library_of(&info).built_with.contains("rustc 1."), "{}", library_of(&info).built_with);
}

#[test]
fn a_plugin_gets_the_granted_ones_of_its_requested_capabilities() {
    let test = TestModules::with_options(|options| options.granted = vec![Capability::ReadNode, Capability::Sign]);

    let info = test.modules.load(&rust_plugin("tenon-plugin-net"), "").unwrap();

    assert_eq!(plugin_of(&info).granted, [Capability::ReadNode]);
}

#[tokio::test]
async fn the_example_in_rust_greets() {
    let test = TestModules::new();
    test.modules.load(&rust_plugin("tenon-example-hello"), "").unwrap();
    let (router, caller) = (test.modules.router(), Caller::local());

    let world = router.call_method("hello_greet", None, &caller).await.unwrap();
    let escaped = router.call_method("hello_greet", Some("[\"<Ann>\"]"), &caller).await.unwrap();

    assert_eq!(text(world), "\"hello world\"");
    assert_eq!(text(escaped), "\"hello \\u003cAnn\\u003e\"");
}

#[tokio::test]
async fn the_example_in_c_greets_waits_and_counts() {
    let test = TestModules::new();
    let library = c_plugin(test.folder.path(), "plugins/examples/c_hello/c_hello.c", &[]);
    let info = test.modules.load(&library, "").unwrap();
    let (router, caller) = (test.modules.router(), Caller::local());

    let greeting = router.call_method("chello_greet", None, &caller).await.unwrap();
    let refused = router.call_method("chello_greet", Some("[1]"), &caller).await.unwrap_err();
    let waited = router.call_method("chello_wait", None, &caller).await.unwrap();
    let mut stream = router.subscribe("chello", "count", None, &caller).await.unwrap();
    let mut items = Vec::new();
    while let Some(item) = stream.next().await {
        items.push(text(item.unwrap()));
    }

    assert_eq!(library_of(&info).plugin, "hello in C");
    assert_eq!(text(greeting), "\"hello from C\"");
    assert_eq!((refused.code.0, refused.message.as_str()), (-32602, "too many arguments, want at most 0"));
    assert_eq!(text(waited), "\"waited\"");
    assert_eq!(items, ["1", "2", "3"]);
}

#[tokio::test]
async fn the_built_in_namespaces_answer_through_the_boundary() {
    let test = TestModules::new();
    for plugin in ["tenon-plugin-net", "tenon-plugin-web3", "tenon-plugin-rpc"] {
        test.modules.load(&rust_plugin(plugin), "").unwrap();
    }
    test.answer_version();
    tenon_modules::register(&test.bus, &test.modules).unwrap();
    let (router, caller) = (test.modules.router(), Caller::local());

    let version = router.call_method("web3_clientVersion", None, &caller).await.unwrap();
    let modules = router.call_method("rpc_modules", None, &caller).await.unwrap();
    let document = router.call_method("rpc_discover", None, &caller).await.unwrap();

    assert_eq!(text(version), "\"Tenon/test\"");
    assert_eq!(text(modules), r#"{"net":"1.0","rpc":"1.0","web3":"1.0"}"#);
    let document: serde_json::Value = serde_json::from_slice(document.as_ref()).unwrap();
    assert_eq!(document["methods"].as_array().unwrap().len(), 7);
}
