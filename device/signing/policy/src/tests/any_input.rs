//! Any requests, policies and data.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn a_request_that_no_rule_names_is_denied(
        client in "[a-z]{0,8}", account: [u8; 20], to: Option<[u8; 20]>, chain: Option<u64>, nonce: u64, gas: u64,
        value: [u64; 4], data in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut asked = with(|it| {
            *it = Transaction {
                chain_id: chain, nonce, gas_limit: gas, to: to.map(Address::from), value: U256::from_limbs(value),
                input: data.into(), ..it.clone()
            };
        });
        (asked.client, asked.account) = (client, Address::from(account));
        let named = asked.client == "payroll";
        prop_assume!(!named);
        let policy = policy(&format!("{PAYROLL}{TOKENS}"));
        prop_assert_eq!(outcome(&policy, &asked), Outcome::Deny);
        let shown = Presentation::new(&asked, policy.interfaces());
        prop_assert!(shown.lines.len() <= 200);
        prop_assert!(shown.lines.iter().all(|line| !line.value.chars().any(char::is_control)));
    }

    #[test]
    fn any_text_is_a_policy_or_an_error(text in "\\PC{0,200}") {
        let _ = parse(&text);
        let _ = parse(&format!("version = 1\n{text}"));
    }

    #[test]
    fn decoding_any_data_does_not_panic(data in prop::collection::vec(any::<u8>(), 0..300), which in 0..3_usize) {
        let selector = [TRANSFER, APPROVE, hex!("bd1f3b5e")][which];
        let data = [&selector[..], &data].concat();
        let policy = policy("");
        for call in policy.interfaces().decode(TOKEN, &data) {
            prop_assert!(call.arguments.iter().all(|argument| argument.shown().chars().count() <= MAX_SHOWN_CHARACTERS));
        }
    }
}
