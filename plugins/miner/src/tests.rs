//! Methods against a node whose answers the test sets.

use std::sync::{Arc, Mutex};

use tenon_sdk::testing::FakeHost;

use super::*;

fn call_method(host: &FakeHost, method: &str, params: &str) -> Result<String, String> {
    host.call_method(&table(), &Arc::new(Miner), method, params).map_err(|failure| failure.message)
}

/// The change of block production that a call requests from the node.
fn change(method: &str, params: &str) -> (Result<String, String>, Option<SealingChange>) {
    let asked = Arc::new(Mutex::new(None));
    let log = Arc::clone(&asked);
    let host = FakeHost::new().answer(move |request: SetSealing| {
        *log.lock().expect("no panic") = Some(request.change);
        Ok(())
    });
    let answer = call_method(&host, method, params);
    let asked = asked.lock().expect("no panic").take();
    (answer, asked)
}

fn done() -> Result<String, String> {
    Ok("true".to_owned())
}

#[test]
fn starting_returns_true_or_names_what_is_missing() {
    let start = |outcome, params| {
        call_method(&FakeHost::new().answer(move |_: StartSealing| Ok(outcome)), "miner_start", params)
    };

    for params in ["[]", "[null]", "[4]"] {
        assert_eq!(start(SealingStart::Running, params), done());
    }
    let missing = "etherbase missing: etherbase must be explicitly specified";
    assert_eq!(start(SealingStart::NoEtherbase, "[]"), Err(missing.to_owned()));
    assert_eq!(start(SealingStart::NoSigner, "[]"), Err("signer missing: unknown account".to_owned()));
    assert!(start(SealingStart::Unsupported, "[]").is_err_and(|told| told.starts_with("this node makes no blocks")));
    assert!(start(SealingStart::Running, r#"["0x4"]"#).is_err());
}

#[test]
fn stopping_disables_the_module_where_it_runs() {
    for is_sealing in [true, false] {
        let stopped = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&stopped);
        let host = FakeHost::new()
            .answer(move |_: GetSealing| Ok(SealingState { is_sealing, etherbase: None }))
            .answer(move |request: ChangeModule| {
                log.lock().expect("no panic").push((request.name, request.change));
                Err(Failure::server("asked"))
            });

        let answer = call_method(&host, "miner_stop", "[]");

        let wanted = (SEALING.to_owned(), ModuleChange::Disable);
        let asked = stopped.lock().expect("no panic").clone();
        assert_eq!((answer.is_ok(), asked), if is_sealing { (false, vec![wanted]) } else { (true, vec![]) });
    }
}

#[test]
fn blocks_get_the_chosen_values() {
    let etherbase = Address::with_last_byte(0xab);
    let param = format!("[\"{etherbase}\"]");
    assert_eq!(change("miner_setEtherbase", &param), (done(), Some(SealingChange::Etherbase(etherbase))));
    assert_eq!(change("miner_setGasLimit", r#"["0x1c9c380"]"#), (done(), Some(SealingChange::GasLimit(30_000_000))));
    let extra = |text: &str| change("miner_setExtra", &format!("[\"{text}\"]"));
    assert_eq!(extra("häuser"), (done(), Some(SealingChange::ExtraData("häuser".as_bytes().to_vec().into()))));
    assert_eq!(extra(&"x".repeat(32)).0, done());
    assert_eq!(extra(&"x".repeat(33)), (Err("extra exceeds max length: 33 > 32".to_owned()), None));
}

#[test]
fn a_price_is_the_minimum_tip_of_the_pool() {
    let host = FakeHost::new().answer(|request: SetMinTip| Err(Failure::server(request.tip.to_string())));

    assert_eq!(call_method(&host, "miner_setGasPrice", r#"["0x3b9aca00"]"#), Err("1000000000".to_owned()));
    assert!(call_method(&host, "miner_setGasPrice", "[1]").is_err_and(|told| told.starts_with("invalid argument 0")));
}

#[test]
fn nothing_is_hashed() {
    assert_eq!(call_method(&FakeHost::new(), "miner_getHashrate", "[]"), Ok("0".to_owned()));
}
