//! Messages of the pool and of accounts.

use tenon_api::{messages::*, *};

use crate::{
    Frames,
    samples::{ADDRESS, HASH, call_request, transaction, wei},
};

pub(crate) fn pool_and_account_frames(frames: &mut Frames) {
    let waiting = transaction(TransactionPayload::Legacy { gas_price: wei(1) });
    frames.request(SubmitTransaction { raw: Bytes::from_static(&[1]) }, Ok(HASH));
    frames.add("0400 SubmitTransaction refusals v2", &pool_refusals());
    frames.request(GetPoolStatus, PoolStatus { pending: 1, queued: 2 });
    frames.request(
        GetPoolContent { sender: Some(ADDRESS) },
        PoolContent { pending: vec![waiting.clone()], queued: vec![] },
    );
    let in_short = PooledSummary::from(&waiting);
    frames.request(GetPoolTransaction { hash: HASH }, Some(waiting));
    frames.request(GetPoolNonce { address: ADDRESS }, 4);
    frames.request(GetPendingSince { cursor: Some(1) }, PendingSince { cursor: 2, hashes: vec![HASH] });
    frames.request(GetRawPoolTransaction { hash: HASH }, Some(Bytes::from_static(&[1])));
    frames.request(AwaitSealing { hash: HASH }, ());
    frames.request(RecoverSendersAhead { raw: vec![Bytes::from_static(&[1])] }, ());
    frames.request(SetMinTip { tip: wei(3) }, ());
    frames.request(GetPoolSummary { sender: None }, PoolSummary { pending: vec![in_short], queued: vec![] });
    frames.request(GetSealing, SealingState { is_sealing: true, etherbase: Some(ADDRESS) });
    frames.request(SetSealing { change: SealingChange::ExtraData(Bytes::from_static(b"extra")) }, ());
    frames.request(StartSealing, SealingStart::NoSigner);
    frames.request(ListAccounts, vec![ADDRESS]);
    let password = || Some(SecretText::from("pass"));
    let message = Bytes::from_static(b"hi");
    frames.request(SignMessage { address: ADDRESS, message, password: None }, Bytes::from_static(&[1]));
    let signed = SignedTransactionReply { raw: Bytes::from_static(&[1]), hash: HASH };
    frames.request(SignTransaction { request: call_request(), password: password() }, signed);
    frames.request(SendTransaction { request: call_request(), password: password() }, Ok(HASH));
    let account = || WalletAccount { address: ADDRESS, url: "keystore:///k/1".to_owned() };
    let wallet = Wallet {
        url: "keystore:///k/1".to_owned(),
        status: WalletStatus::Unlocked,
        failure: None,
        accounts: vec![account()],
    };
    let device = Wallet {
        url: "trezor://1".to_owned(),
        status: WalletStatus::Device(DeviceStatus::WaitingForPin(DeviceName {
            version: [1, 8, 1],
            label: "mine".to_owned(),
        })),
        failure: Some(WalletFailure::Device(DeviceProblem::Failed("PIN invalid".to_owned()))),
        accounts: vec![],
    };
    let signer = Wallet {
        url: "extapi:///s".to_owned(),
        status: WalletStatus::Text("not reached".to_owned()),
        failure: Some(WalletFailure::Text("no answer".to_owned())),
        accounts: vec![],
    };
    frames.request(ListWallets, vec![wallet, device, signer]);
    frames.request(CreateAccount { password: SecretText::default() }, ADDRESS);
    frames.request(ImportKey { key: SecretText::from("07"), password: SecretText::from("pass") }, ADDRESS);
    frames.request(UnlockAccount { address: ADDRESS, password: SecretText::from("pass"), seconds: 300 }, ());
    frames.request(LockAccount { address: ADDRESS }, ());
    let operation = WalletOperation::Derive { path: "m/44'".to_owned(), is_pinned: true };
    let use_wallet = UseWallet { url: "trezor://1".to_owned(), operation };
    frames.request(use_wallet, WalletAnswer::Account(account()));
    let signature = Bytes::from_static(&[27]);
    let data = Some("{}".to_owned());
    let typed = SignTypedData { address: ADDRESS, domain: HASH, message: Some(HASH), data, password: password() };
    frames.request(typed, Bytes::from_static(&[1]));
    frames.request(DescribeSigner { address: ADDRESS }, SignerAbilities::ALL);
    frames.request(RecoverSigner { message: Bytes::from_static(b"hi"), signature }, ADDRESS);
    frames.event(WalletChanged { change: WalletChange::Opened, url: "keystore:///k/1".to_owned() });
    frames.event(WalletPrompted { url: "trezor://1".to_owned(), prompt: WalletPrompt::Button });
}

/// Every refusal of the pool.
fn pool_refusals() -> Vec<PoolRefusal> {
    let (gas_limit, needed, size, limit) = (7, 8, 9, 5);
    let problem = DecodeProblem::WrongLength { wanted: 20, found: 3 };
    let mut refusals = vec![
        PoolRefusal::Undecodable { what: "nonce".into(), offset: 7, problem },
        PoolRefusal::AlreadyKnown,
        PoolRefusal::TypeNotActive(TransactionType::Blob),
        PoolRefusal::Unprotected,
        PoolRefusal::FeeCap { fee: wei(2), cap: wei(1) },
        PoolRefusal::Oversized { size, limit },
        PoolRefusal::InitCodeTooLong { size: 9, limit: 5 },
        PoolRefusal::GasLimitTooHigh { gas_limit, cap: 6 },
        PoolRefusal::ExceedsBlockGasLimit,
        PoolRefusal::TipAboveFeeCap { tip: wei(2), fee: wei(1) },
        PoolRefusal::InvalidSender(SenderProblem::InvalidSignature),
        PoolRefusal::InvalidSender(SenderProblem::InvalidPublicKey),
        PoolRefusal::InvalidSender(SenderProblem::WrongChain { found: 1, wanted: 2 }),
        PoolRefusal::InvalidSender(SenderProblem::UnsupportedType),
        PoolRefusal::NonceAtEnd,
        PoolRefusal::IntrinsicGas { gas_limit, needed },
        PoolRefusal::FloorDataGas { gas_limit, needed },
        PoolRefusal::Underpriced { tip: wei(1), needed: wei(2) },
        PoolRefusal::NoAuthorizations,
        PoolRefusal::NonceTooLow { next: 2, found: 1 },
        PoolRefusal::InsufficientFunds { balance: wei(1), queued: wei(2), cost: wei(3) },
        PoolRefusal::ReplacementUnderpriced,
        PoolRefusal::DelegatedInFlight,
        PoolRefusal::DelegatedGap,
        PoolRefusal::AccountLimit { sender: ADDRESS, limit },
        PoolRefusal::Full,
        PoolRefusal::DuplicatePrivileged,
    ];
    let blobs = [
        BlobProblem::None,
        BlobProblem::TooMany { found: 7, limit: 6 },
        BlobProblem::Creation,
        BlobProblem::NoSidecar,
        BlobProblem::Version { found: 1, wanted: 0 },
        BlobProblem::Mismatch,
        BlobProblem::Proof,
        BlobProblem::Underpriced { found: wei(0), wanted: 1 },
    ];
    refusals.extend(blobs.map(PoolRefusal::Blobs));
    let native = [
        NativePoolRefusal::Type,
        NativePoolRefusal::TypeBeforePrague,
        NativePoolRefusal::NoAuthorizations,
        NativePoolRefusal::FloorGas { have: 1, want: 2 },
        NativePoolRefusal::Oversized,
        NativePoolRefusal::DeniedSender(ADDRESS),
        NativePoolRefusal::DeniedReceiver(ADDRESS),
        NativePoolRefusal::BlockGasLimit,
        NativePoolRefusal::TipAboveFeeCap,
        NativePoolRefusal::Sender,
        NativePoolRefusal::Underpriced,
        NativePoolRefusal::NonceTooLow,
        NativePoolRefusal::NonceTooHigh,
        NativePoolRefusal::Funds,
        NativePoolRefusal::IntrinsicGas,
        NativePoolRefusal::ZeroGasPrice,
        NativePoolRefusal::MinGasPrice,
        NativePoolRefusal::SpecialByInterface,
    ];
    refusals.extend(native.map(PoolRefusal::Native));
    refusals
}
