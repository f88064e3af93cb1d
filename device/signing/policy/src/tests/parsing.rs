//! The text of a policy.

use super::*;

#[test]
fn an_invalid_policy_is_refused_with_the_place_of_the_error() {
    let rule = |lines: &str| {
        format!(
            "version = 1\n[interfaces.erc20]\nfile = \"erc20.json\"\n[[rules]]\nname = \"one\"\noutcome = \"allow\"\n{lines}"
        )
    };
    let complete =
        "kinds = [\"transaction\"]\nclients = \"any\"\naccounts = \"any\"\nchains = \"any\"\nrecipients = \"any\"\n";
    let cases = [
        ("".to_owned(), "version"),
        ("version = 2".to_owned(), "`version` is 2"),
        ("version = 1\nrule = []".to_owned(), "unknown field `rule`"),
        (rule("kind = [\"transaction\"]"), "unknown field `kind`"),
        (rule("kinds = [\"payment\"]"), "payment"),
        (rule("kinds = []"), "`kinds` is empty"),
        (rule("kinds = [\"transaction\"]"), "`functions` is missing"),
        (rule(&format!("{complete}functions = \"any\"").replace("clients = \"any\"\n", "")), "`clients` is missing"),
        (rule(&format!("{complete}functions = \"some\"")), "\"some\" is not known"),
        (rule(&format!("{complete}functions = []")), "the rule would never match"),
        (rule(&format!("{complete}functions = [\"erc20.burn\"]")), "no interface has \"erc20.burn\""),
        (rule(&format!("{complete}functions = [\"0xa9059c\"]")), "not a selector"),
        (rule(&format!("{complete}functions = \"any\"\nmax-value = \"1 coin\"")), "`1 coin` is not an amount"),
        (rule(&format!("{complete}functions = \"any\"\nmax-value = -1")), "negative"),
        (rule(&format!("{complete}functions = \"any\"\nwindow = \"1 day\"")), "`1 day` is not a duration"),
        (rule(&format!("{complete}functions = \"any\"\nwindow = \"1d\"")), "`window` needs"),
        (rule(&format!("{complete}functions = \"any\"\nmax-requests-in-window = 1")), "needs `window`"),
        (
            rule(&format!("{complete}functions = \"any\"\nprefixes = \"any\"")),
            "`prefixes` applies only to the kind \"message\"",
        ),
        (
            rule(&format!(
                "{complete}functions = [\"erc20.transfer\"]\narguments = [{{ function = \"erc20.transfer\", name = \"from\", max = 1 }}]"
            )),
            "has no argument \"from\"",
        ),
        (
            rule(&format!(
                "{complete}functions = [\"erc20.transfer\"]\narguments = [{{ function = \"erc20.transfer\", name = \"to\" }}]"
            )),
            "either `one-of` or `max`",
        ),
        (
            rule(&format!(
                "{complete}functions = \"any\"\narguments = [{{ function = \"erc20.transfer\", name = \"to\", max = 1 }}]"
            )),
            "do not name \"erc20.transfer\"",
        ),
        (
            rule(&format!(
                "{complete}functions = \"any\"\n[[rules]]\nname = \"one\"\noutcome = \"deny\"\nkinds = [\"raw\"]"
            )),
            "another rule has this name",
        ),
        (rule("").replace("allow", "deny") + "kinds = [\"transaction\"]\nmax-value = 1", "can't have it"),
        (rule("").replace("\"one\"", "\" \"") + complete + "functions = \"any\"", "a name has"),
        ("version = 1\n[interfaces.other]\nfile = \"other.json\"".to_owned(), "other.json: not found"),
    ];
    for (text, expected) in cases {
        let error = parse(&text).map(|_| ()).expect_err(expected).to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let error = parse("version = 1\n\n[[rules]]\nnam = 1").map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("line 4"), "{error}");
}

#[test]
fn the_hash_changes_with_the_text_and_the_interfaces() {
    let read = |text: &str, interface: &str| Policy::parse(text, |_| Ok(interface.to_owned())).unwrap().hash();
    let text = "version = 1\n[interfaces.a]\nfile = \"a.json\"\n";

    assert_eq!(read(text, ERC20), read(text, ERC20));
    assert_ne!(read(text, ERC20), read(&format!("{text}# and more"), ERC20));
    assert_ne!(read(text, ERC20), read(text, "[]"));
}
