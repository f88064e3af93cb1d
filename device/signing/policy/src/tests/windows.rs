//! Windows of time, and the nonces of transactions.

use super::*;

#[test]
fn a_window_counts_signatures_until_they_are_older_than_it() {
    let (policy, entries) = (policy(PAYROLL), Entries::default());
    let ask = |now| policy.explain(&request(transaction()), &entries, now).rules[0].1;
    entries.add(NOW, COIN);
    entries.add(NOW + 10, COIN);

    assert_eq!(ask(NOW + 20), Ok(()));
    entries.add(NOW + 20, 1);
    assert_eq!(ask(NOW + 30), Err(Mismatch::ValueInWindow));
    assert_eq!(ask(NOW + 86_400 - 1), Err(Mismatch::ValueInWindow));
    assert_eq!(ask(NOW + 86_400), Ok(()), "the first entry is a day old");
    entries.add(NOW + 86_400, 0);
    assert_eq!(ask(NOW + 86_400), Err(Mismatch::RequestsInWindow));
}

#[test]
fn setting_the_clock_back_does_not_reopen_a_window() {
    let (policy, entries) = (policy(PAYROLL), Entries::default());
    entries.add(NOW, 3 * COIN);

    for now in [0, NOW - 10 * 86_400, NOW - 1, NOW] {
        let explained = policy.explain(&request(transaction()), &entries, now);
        assert_eq!(explained.rules[0].1, Err(Mismatch::ValueInWindow), "{now}");
        assert_eq!(explained.decision.outcome, Outcome::Deny);
    }
}

#[test]
fn a_second_transaction_for_a_nonce_needs_a_rule_with_replace() {
    let first = request(transaction());
    let Subject::Transaction { hash, .. } = first.subject else { panic!("a transaction") };
    let entries = Entries { signed: Some((7, hash)), ..Entries::default() };
    let second = with(|it| it.value = U256::from(1));
    let explain = |rules: &str, asked: &Request| policy(rules).explain(asked, &entries, NOW).rules[0].1;

    assert_eq!(explain(PAYROLL, &first), Ok(()), "the same again");
    assert_eq!(explain(PAYROLL, &second), Err(Mismatch::Replacement));
    assert_eq!(explain(&PAYROLL.replace("max-fee =", "replace = true\nmax-fee ="), &second), Ok(()));
    assert_eq!(explain(PAYROLL, &with(|it| it.nonce = 8)), Ok(()));
}

#[test]
fn the_last_nonce_is_never_signed() {
    let policy = policy(PAYROLL);
    assert_eq!(outcome(&policy, &with(|it| it.nonce = u64::MAX - 1)), Outcome::Allow);
    assert_eq!(outcome(&policy, &with(|it| it.nonce = u64::MAX)), Outcome::Deny);
}
