//! What a person sees of a request.

use super::*;

#[test]
fn the_presentation_shows_the_content_to_be_signed() {
    let policy = policy("");
    let shown = |asked: &Request| Presentation::new(asked, policy.interfaces());
    let value = |shown: &Presentation, label: &str| {
        shown.lines.iter().find(|line| line.label == label).map(|line| line.value.clone()).unwrap_or_default()
    };

    let payment = shown(&request(transaction()));
    assert_eq!(payment.title, "Send 1 coin");
    assert_eq!(value(&payment, "To"), FRIEND.to_checksum(None));
    assert_eq!(value(&payment, "Highest fee"), "0.000021 coins");
    assert_eq!((value(&payment, "Chain").as_str(), payment.warnings.as_slice()), ("50", &[][..]));

    let call = shown(&transfer(FRIEND, 5));
    assert_eq!((call.title.as_str(), value(&call, "amount (uint256)").as_str()), ("Call erc20.transfer", "5"));
    assert_eq!(call.warnings, []);

    let approval = shown(&token_call(APPROVE, STRANGER, U256::MAX));
    assert_eq!(approval.warnings, [Warning::UnlimitedApproval]);
    assert_eq!(value(&approval, "Unlimited approval for"), STRANGER.to_checksum(None));

    let blind = shown(&token_call([1, 2, 3, 4], FRIEND, U256::ZERO));
    assert_eq!(blind.warnings, [Warning::Blind]);
    assert_eq!(shown(&with(|it| it.to = None)).warnings, [Warning::Creation]);
    assert_eq!(shown(&with(|it| it.payload = set_code())).warnings, [Warning::Delegation]);
    assert_eq!(
        shown(&with(|it| (it.to, it.input) = (None, vec![1; 129].into()))).warnings,
        [Warning::Creation, Warning::Cut]
    );
}

#[test]
fn an_access_list_is_shown_completely_or_marked_as_cut() {
    let policy = policy("");
    let shown = |accounts: u8, keys: u8| {
        let entry = |account: u8| AccessListItem {
            address: Address::repeat_byte(account),
            storage_keys: (0..keys).map(B256::repeat_byte).collect(),
        };
        let access_list: Vec<_> = (0..accounts).map(entry).collect();
        let payload = TransactionPayload::AccessList { gas_price: U256::from(1), access_list };
        Presentation::new(&with(|it| it.payload = payload.clone()), policy.interfaces())
    };
    let listed = |shown: &Presentation| shown.lines.iter().filter(|line| line.label == "Access list").count();

    let whole = shown(2, 1);
    assert_eq!((listed(&whole), whole.warnings.as_slice()), (2, &[][..]));
    assert!(whole.lines.iter().any(|line| line.value.ends_with(&B256::ZERO.to_string())));
    assert_eq!((listed(&shown(9, 0)), shown(9, 0).warnings), (8, vec![Warning::Cut]));
    assert_eq!(shown(1, 9).warnings, [Warning::Cut]);
}

#[test]
fn shown_text_has_no_misleading_characters() {
    let subject = Subject::Message(Bytes::from_static("pay \u{202e}0001\nand \u{1b}[2J".as_bytes()));
    let asked = Request { client: "evil\u{200b}".to_owned(), account: ACCOUNT, subject };

    let shown = Presentation::new(&asked, &Interfaces::default());

    assert_eq!(shown.warnings, [Warning::HiddenCharacters]);
    let values: Vec<&str> = shown.lines.iter().map(|line| line.value.as_str()).collect();
    assert_eq!(values[0], "evil");
    assert_eq!(&values[2..], ["pay 0001", "and [2J", "20 bytes"]);
}
