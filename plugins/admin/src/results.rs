//! Schemas of parameters and results that only this namespace has, for the OpenRPC document.

/// A list of strings.
macro_rules! texts {
    () => {
        r#"{"type":"array","items":{"type":"string"}}"#
    };
}
/// A module.
macro_rules! module {
    () => {
        concat!(
            r#"{"type":"object","required":["name","state","kind","namespace","version","path","contentHash","isolation","#,
            r#""granted","methods","subscriptions","runningCalls","limits","faults","warnings"],"properties":{"#,
            r#""name":{"type":"string"},"state":{"type":"string"},"reason":{"type":["string","null"]},"#,
            r#""namespace":{"type":"string"},"version":{"type":"string"},"path":{"type":"string"},"#,
            r#""contentHash":{"type":"string"},"isolation":{"type":"string"},"process":{"type":["integer","null"]},"#,
            r#""granted":"#,
            texts!(),
            r#","methods":"#,
            texts!(),
            r#","subscriptions":"#,
            texts!(),
            r#","runningCalls":{"type":"integer"},"limits":{"type":"object"},"faults":{"type":"object"},"warnings":"#,
            texts!(),
            r#","health":{"type":["string","null"]},"mailbox":{"type":["object","null"]},"#,
            r#""address":{"type":["string","null"]},"connections":{"type":["integer","null"]}}}"#
        )
    };
}
/// The result of an operation on a module.
macro_rules! report {
    () => {
        concat!(
            r#"{"type":"object","required":["module","operation","state","reason","old","new","runningCalls","#,
            r#""cancelledCalls","drainMicros","totalMicros","dependants"],"properties":{"module":{"type":"string"},"#,
            r#""operation":{"type":"string"},"state":{"type":"string"},"reason":{"type":["string","null"]},"#,
            r#""old":{"type":["object","null"]},"new":{"type":["object","null"]},"runningCalls":{"type":"integer"},"#,
            r#""cancelledCalls":{"type":"integer"},"drainMicros":{"type":"integer"},"totalMicros":{"type":"integer"},"#,
            r#""dependants":"#,
            texts!(),
            "}}"
        )
    };
}
/// What a front-end exposes.
macro_rules! exposure {
    () => {
        concat!(
            r#"{"type":"object","required":["isOpen","open","withToken","deniedMethods"],"properties":{"#,
            r#""isOpen":{"type":"boolean"},"open":"#,
            texts!(),
            r#","withToken":"#,
            texts!(),
            r#","deniedMethods":"#,
            texts!(),
            r#","until":{"type":["integer","null"]}}}"#
        )
    };
}
/// The operator's terms for a build.
macro_rules! terms {
    ($first:literal) => {
        concat!(
            r#"{"type":"object","properties":{"#,
            $first,
            r#","settings":{"type":"object"},"grant":"#,
            texts!(),
            r#","trust":{"type":"boolean"}}}"#
        )
    };
}

/// Results, by method.
pub(crate) const RESULTS: &[(&str, &str)] = &[
    (
        "admin_nodeInfo",
        r#"{"type":"object","required":["name","ports","listenAddr","protocols"],"properties":{"name":{"type":"string"},"ports":{"type":"object"},"listenAddr":{"type":"string"},"protocols":{"type":"object"}}}"#,
    ),
    ("admin_peers", r#"{"type":"array","items":{"type":"object","required":["id","name","caps","network"]}}"#),
    ("admin_setExposure", exposure!()),
    ("admin_listModules", concat!(r#"{"type":"array","items":"#, module!(), "}")),
    ("admin_moduleInfo", module!()),
    ("admin_loadModule", report!()),
    ("admin_enableModule", report!()),
    ("admin_disableModule", report!()),
    ("admin_replaceModule", report!()),
    ("admin_unloadModule", report!()),
    (
        "admin_reloadSettings",
        r#"{"type":"object","required":["modules","failures","changed","needsRestart"],"properties":{"modules":{"type":"array"},"failures":{"type":"array"},"changed":{"type":"array"},"needsRestart":{"type":"array"}}}"#,
    ),
    (
        "admin_purgeModuleStorage",
        r#"{"type":"object","required":["records","bytes"],"properties":{"records":{"type":"integer"},"bytes":{"type":"integer"}}}"#,
    ),
];

/// Parameters, by method and name.
pub(crate) const PARAMETERS: &[(&str, &str, &str)] = &[
    (
        "admin_setExposure",
        "options",
        concat!(
            r#"{"type":["object","null"],"properties":{"namespaces":"#,
            texts!(),
            r#","deniedMethods":"#,
            texts!(),
            r#","tokenNamespaces":"#,
            texts!(),
            r#","seconds":{"type":"integer"}}}"#
        ),
    ),
    ("admin_loadModule", "options", terms!(r#""name":{"type":"string"},"enabled":{"type":"boolean"}"#)),
    ("admin_enableModule", "options", r#"{"type":["object","null"],"properties":{"seconds":{"type":"integer"}}}"#),
    ("admin_replaceModule", "options", terms!(r#""path":{"type":"string"}"#)),
];
