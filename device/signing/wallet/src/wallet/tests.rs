//! A wallet in front of a service that misbehaves.

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use alloy_primitives::B256;
use futures_util::FutureExt as _;
use tenon_bus::{CallContext, ClientId, Origin, Transport};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    task::JoinHandle,
};

use super::*;

const ACCOUNT: Address = Address::repeat_byte(7);

/// A wallet whose service is a listener in a temporary folder.
fn wallet() -> (tempfile::TempDir, UnixListener, ServiceWallet) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let wallet = ServiceWallet::new(endpoint(&socket), Bus::new());
    (folder, listener, wallet)
}

fn endpoint(socket: &Path) -> Endpoint {
    Endpoint::new(socket.to_str().unwrap(), None).unwrap()
}

async fn read_request(stream: &mut UnixStream) {
    BufReader::new(stream).lines().next_line().await.unwrap();
}

/// Answers all requests with this text, repeated without end if `is_endless`.
fn answer_with(listener: UnixListener, text: String, is_endless: bool) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            while stream.write_all(text.as_bytes()).await.is_ok() && is_endless {}
        }
    })
}

fn client(number: u32) -> CallContext {
    CallContext::new().with_origin(Origin::new(Transport::Socket, ClientId::of_process(number)))
}

async fn sign(wallet: &ServiceWallet, context: &CallContext, message: &[u8]) -> Result<HashSignature, AccountsError> {
    let signer = wallet.signer(ACCOUNT, Authority { password: None, context }).await?;
    signer.sign(Signable::Message(message)).await
}

async fn refusal(wallet: &ServiceWallet, message: &[u8]) -> String {
    sign(wallet, &client(1), message).await.unwrap_err().to_string()
}

#[tokio::test]
async fn an_endless_answer_is_refused_at_the_length_that_the_method_needs() {
    let (_folder, listener, wallet) = wallet();
    let _service = answer_with(listener, "0".repeat(1024), true);

    // A large request does not make a signature longer.
    let refused = refusal(&wallet, &vec![0; 100_000]).await;
    wallet.scan().await;

    assert!(refused.ends_with("it has more than 16384 bytes"), "{refused}");
    let Some(WalletFailure::Text(failure)) = wallet.wallets().remove(0).failure else { panic!("no failure") };
    assert!(failure.ends_with("it has more than 16384 bytes"), "{failure}");
}

#[tokio::test]
async fn an_answer_of_many_values_is_refused_without_being_kept() {
    for text in [r#"{"result":[{"":0},{"":0},0]}"#, r#"{"result":{"":[[]]}}"#, r#"{"result":"0x","result":"0x"}"#, "[]"]
    {
        let (_folder, listener, wallet) = wallet();
        let _service = answer_with(listener, format!("{text}\n"), false);

        let refused = refusal(&wallet, b"").await;

        assert!(refused.contains("gave an invalid answer"), "{text}: {refused}");
    }
}

#[test]
fn a_signed_transaction_may_contain_its_request_twice() {
    let signed = TransactionAnswer::max_length(1_000_000);

    assert_eq!(signed, 2_000_000 + MAX_SHORT_ANSWER);
    assert_eq!(TransactionAnswer::max_length(usize::MAX), usize::MAX);
}

#[tokio::test]
async fn requests_wait_for_a_place_but_not_for_those_of_another_client() {
    let (_folder, listener, wallet) = wallet();
    let (begun, answers) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let _service = tokio::spawn(refuse_each_with_a_permit(listener, Arc::clone(&begun), Arc::clone(&answers)));
    let spawn = |number| {
        let wallet = wallet.clone();
        tokio::spawn(async move { sign(&wallet, &client(number), b"").await })
    };
    let wait_until_begun = async |count| {
        while begun.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
    };

    let places = CALL_LIMITS.client_places;
    let mut signing: Vec<_> = (0..places + 12).map(|_| spawn(1)).collect();
    wait_until_begun(places).await;
    assert_eq!(wallet.calls.counts(), (places, 0, 12));
    signing.push(spawn(2));
    wait_until_begun(places + 1).await;
    assert_eq!(wallet.calls.counts(), (places + 1, 0, 12));
    answers.add_permits(signing.len());
    for task in signing {
        assert_eq!(task.await.unwrap().unwrap_err().to_string(), "not today");
    }

    assert_eq!(wallet.calls.counts(), (0, 0, 0));
}

/// Counts the requests, and refuses one for each permit.
async fn refuse_each_with_a_permit(listener: UnixListener, begun: Arc<AtomicUsize>, answers: Arc<Semaphore>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (begun, answers) = (Arc::clone(&begun), Arc::clone(&answers));
        tokio::spawn(async move {
            read_request(&mut stream).await;
            begun.fetch_add(1, Ordering::SeqCst);
            answers.acquire().await.unwrap().forget();
            stream.write_all(b"{\"error\":{\"message\":\"not today\"}}\n").await.unwrap();
        });
    }
}

#[tokio::test]
async fn requests_beyond_the_queue_are_refused_as_busy() {
    let (_folder, _listener, wallet) = wallet();
    let limit = CALL_LIMITS.client_places + CALL_LIMITS.client_queue;
    let contexts: Vec<_> = (0..=limit).map(|_| client(1)).collect();
    let mut signing: Vec<_> = contexts.iter().map(|context| Box::pin(sign(&wallet, context, b""))).collect();
    let mut last = signing.pop().unwrap();
    for waiting in &mut signing {
        assert!(waiting.as_mut().now_or_never().is_none());
    }

    let refused = last.as_mut().now_or_never().expect("an immediate answer").unwrap_err();

    assert_eq!(refused.to_string(), "the signing service pool is busy: 64 of your requests are waiting");
}

#[tokio::test]
async fn the_hash_of_typed_data_and_of_a_block_are_not_sent() {
    let (_folder, _listener, wallet) = wallet();
    let context = client(1);
    let signer = wallet.signer(ACCOUNT, Authority { password: None, context: &context }).await.unwrap();
    let typed = Signable::TypedData { domain: B256::ZERO, message: None, data: None };

    for what in [Signable::Block(B256::ZERO), typed] {
        let refused = signer.sign(what).now_or_never().expect("an immediate answer");
        assert!(matches!(refused, Err(AccountsError::NotSupported(_))));
    }
}
