//! The smallest plugin, called as a node calls it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use tenon_sdk::testing::Chain;

use super::Hello;

#[test]
fn it_greets_by_name_and_without() {
    let hello = Chain::new().start::<Hello>("{}").unwrap();

    assert_eq!(hello.call_method("hello_greet", "[\"Ann\"]").unwrap(), "\"hello Ann\"");
    assert_eq!(hello.call_method("hello_greet", "[]").unwrap(), "\"hello world\"");
    assert_eq!(hello.call_method("hello_greet", "[1]").unwrap_err().code.0, -32602);
}
