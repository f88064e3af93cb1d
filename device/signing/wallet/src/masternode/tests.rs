//! A masternode's key in a scripted service.

use std::{
    path::Path,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use tenon_accounts::Accounts;
use tenon_config::DEVELOPMENT_MNEMONIC;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixListener,
    sync::Notify,
    task::JoinHandle,
};

use super::*;

/// Digests that the scripted service signs, chosen by the first byte and independent of the requested message.
const RIGHT: B256 = B256::repeat_byte(1);
const OTHER: B256 = B256::repeat_byte(2);

/// The masternode's key in the service.
fn key() -> Arc<dyn BlockSigner> {
    static KEY: LazyLock<Arc<dyn BlockSigner>> = LazyLock::new(|| {
        let accounts = Accounts::masternode_from_mnemonic(DEVELOPMENT_MNEMONIC, 50).unwrap();
        accounts.block_signer(accounts.addresses()[0]).unwrap()
    });
    Arc::clone(&KEY)
}

/// What the service answers to `consensus_signVote`.
#[derive(Clone, Copy)]
enum Script {
    Signs(B256),
    SignsWithHighS(B256),
    Refuses,
    IsSilent,
}

/// A service on a socket, and how often it was asked for a vote.
fn serve(path: &Path, script: Script, votes: &Arc<AtomicUsize>) -> JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    let votes = Arc::clone(votes);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (reader, mut writer) = stream.into_split();
            let Ok(Some(line)) = BufReader::new(reader).lines().next_line().await else { continue };
            let request: Value = serde_json::from_str(&line).unwrap();
            let answer = match request["method"].as_str().unwrap() {
                "account_list" => json!({ "result": [key().address()] }),
                "consensus_signVote" => {
                    votes.fetch_add(1, Ordering::SeqCst);
                    let block = &request["params"][2]["proposedBlockInfo"];
                    assert_eq!((request["params"][1].as_u64(), block["round"].as_u64()), (Some(50), Some(9)));
                    match script {
                        Script::Signs(digest) => json!({ "result": Bytes::from(key().sign(digest).unwrap().to_vec()) }),
                        Script::SignsWithHighS(digest) => json!({ "result": Bytes::from(with_high_s(digest)) }),
                        Script::Refuses => json!({ "error": { "code": -32000, "message": "no rule allows it" } }),
                        Script::IsSilent => std::future::pending().await,
                    }
                }
                other => panic!("{other}"),
            };
            writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
    })
}

/// The other signature of the same digest that recovers to the same key.
fn with_high_s(digest: B256) -> Vec<u8> {
    let order = HALF_ORDER * U256::from(2) + U256::ONE;
    let mut signature = key().sign(digest).unwrap().to_vec();
    let s = order - U256::from_be_slice(&signature[32..64]);
    signature[32..64].copy_from_slice(&s.to_be_bytes::<32>());
    signature[64] ^= 1;
    signature
}

struct Setup {
    folder: tempfile::TempDir,
    masternode: ServiceMasternode,
    ready: Arc<Notify>,
    votes: Arc<AtomicUsize>,
}

impl Setup {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let endpoint = Endpoint::new(socket.to_str().unwrap(), None).unwrap();
        let masternode = ServiceMasternode::new(endpoint, key().address(), 50);
        let ready = Arc::new(Notify::new());
        let told = Arc::clone(&ready);
        masternode.on_ready(Arc::new(move || told.notify_one()));
        Self { folder, masternode, ready, votes: Arc::default() }
    }

    fn serve(&self, script: Script) -> JoinHandle<()> {
        serve(&self.folder.path().join("socket"), script, &self.votes)
    }

    fn stop(&self, service: JoinHandle<()>) {
        service.abort();
        std::fs::remove_file(self.folder.path().join("socket")).unwrap();
    }

    fn vote(&self, digest: B256) -> Result<[u8; 65], SignError> {
        let message = SignerMessage::Vote { hash: B256::ZERO, round: 9, number: 8, gap_number: 0 };
        self.masternode.sign_message(message, digest)
    }

    /// The vote once the service has answered.
    async fn answered(&self, digest: B256) -> Result<[u8; 65], SignError> {
        loop {
            match self.vote(digest) {
                Err(error) if error.is_pending => self.wait_until_ready().await,
                answer => return answer,
            }
        }
    }

    async fn wait_until_ready(&self) {
        tokio::time::timeout(Duration::from_secs(20), self.ready.notified()).await.expect("told");
    }

    fn asked(&self) -> usize {
        self.votes.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_signature_is_requested_once_and_then_cached() {
    let setup = Setup::new();
    let _service = setup.serve(Script::Signs(RIGHT));
    setup.wait_until_ready().await;

    assert!(setup.vote(RIGHT).unwrap_err().is_pending);
    assert!(setup.vote(RIGHT).unwrap_err().is_pending, "on its way");

    assert_eq!(setup.answered(RIGHT).await.unwrap(), key().sign(RIGHT).unwrap());
    assert_eq!(setup.vote(RIGHT).unwrap(), key().sign(RIGHT).unwrap());
    assert_eq!(setup.asked(), 1);
    assert!(!setup.masternode.sign(RIGHT).unwrap_err().is_pending, "never a digest alone");
}

#[tokio::test]
async fn a_signature_of_something_else_and_one_with_a_high_s_are_not_used() {
    for script in [Script::Signs(OTHER), Script::SignsWithHighS(RIGHT)] {
        let setup = Setup::new();
        let _service = setup.serve(script);
        setup.wait_until_ready().await;
        for _ in 0..3 {
            let error = setup.answered(RIGHT).await.unwrap_err();
            assert!(error.reason.contains("no valid signature of this account"), "{error}");
        }
        assert_eq!(setup.asked(), 1, "not asked again");
    }
}

#[tokio::test]
async fn a_policy_refusal_is_reported_and_not_requested_again() {
    let setup = Setup::new();
    let _service = setup.serve(Script::Refuses);
    setup.wait_until_ready().await;
    for _ in 0..3 {
        assert_eq!(setup.answered(RIGHT).await.unwrap_err().reason, "no rule allows it");
    }
    assert_eq!(setup.asked(), 1);
}

#[tokio::test]
async fn a_service_that_leaves_and_comes_back_signs_again() {
    let setup = Setup::new();
    let service = setup.serve(Script::IsSilent);
    setup.wait_until_ready().await;
    assert!(setup.vote(RIGHT).unwrap_err().is_pending);
    let error = setup.answered(RIGHT).await.unwrap_err();
    assert!(error.reason.contains("no answer in 3 s"), "{error}");

    setup.stop(service);
    let error = setup.vote(RIGHT).unwrap_err();
    assert!(!error.is_pending, "not asked while it is away: {error}");

    let _service = setup.serve(Script::Signs(RIGHT));
    let signed = async {
        loop {
            setup.wait_until_ready().await;
            if let Ok(signature) = setup.answered(RIGHT).await {
                return signature;
            }
        }
    };
    let signed = tokio::time::timeout(Duration::from_secs(30), signed).await.expect("signed again");
    assert_eq!(signed, key().sign(RIGHT).unwrap());
}
