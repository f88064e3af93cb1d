//! A plugin that tries to exceed its grants, for the tests of the host and of the node. It asks for every capability.
//!
//! Every attempt returns `refused: …` or `got in: …`. Those of `intruder_endings` break rules for which its process is
//! ended. `system` contains the system calls and the frames that it writes to its socket itself.

mod system;

use tenon_sdk::prelude::*;

struct Intruder;

impl Plugin for Intruder {
    fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self)
    }
}

type IntruderContext = Context<Intruder>;

fn table() -> Table<Intruder> {
    Table::new("intruder", "1.0")
        .capabilities(Capability::ALL)
        .read("intruder_attempts", &[], "Names of the attempts that answer.", attempts)
        .read("intruder_endings", &[], "Names of the attempts that end its process.", endings)
        .method("intruder_try", &["attempt"], "Makes an attempt.", attempt)
        .method("intruder_forge", &[], "Asks the node to set its head, in a frame of its own making.", forge)
        .method("intruder_deafen", &["millis"], "Asks for this long and does not read the answers.", deafen)
}

tenon_sdk::export!(Intruder, table);

/// Requests to the node, by the capability that they need.
const REQUESTS: [&str; 9] = [
    "ReadChain: the head",
    "ReadChain: events",
    "CallEvm: a call",
    "SubmitTransactions: a transaction",
    "Sign: a message",
    "Administer: another head",
    "Administer: unload a module",
    "ReadNode: its version",
    "Storage: a record",
];

async fn attempts(_context: IntruderContext) -> Result<Vec<&'static str>, Failure> {
    Ok(REQUESTS.into_iter().chain(system::ATTEMPTS.iter().map(|(name, _)| *name)).collect())
}

async fn endings(_context: IntruderContext) -> Result<Vec<&'static str>, Failure> {
    Ok(system::ENDINGS.iter().map(|(name, _)| *name).collect())
}

async fn attempt(context: IntruderContext, attempt: String) -> Result<String, Failure> {
    if REQUESTS.contains(&attempt.as_str()) {
        return Ok(match ask(&context, &attempt).await {
            Err(failure) if failure.message.contains("was not granted") => format!("refused: {}", failure.message),
            outcome => format!("got in: {outcome:?}"),
        });
    }
    let known = system::ATTEMPTS.iter().chain(system::ENDINGS).find(|(name, _)| *name == attempt);
    let (_, make) = known.ok_or_else(|| Failure::invalid_params("there is no such attempt"))?;
    Ok(match make() {
        Err(error) => format!("refused: {error}"),
        Ok(outcome) => format!("got in: {outcome}"),
    })
}

/// Sends a request; any answer but "not granted" means that it got through.
async fn ask(context: &IntruderContext, question: &str) -> Result<(), Failure> {
    let unload = ChangeModule { name: "eth".to_owned(), change: ModuleChange::Unload, waits_for_drain: false };
    match question {
        "ReadChain: the head" => context.head_number().await.map(drop),
        "ReadChain: events" => context.events::<NewHead>().next().await.map(drop),
        "CallEvm: a call" => context.call_contract(Address::ZERO, Bytes::new(), BlockTag::Latest).await.map(drop),
        "SubmitTransactions: a transaction" => context.submit(Bytes::from_static(b"\x02")).await.map(drop),
        "Sign: a message" => context
            .call(SignMessage { address: Address::ZERO, message: Bytes::from_static(b"mine"), password: None })
            .await
            .map(drop),
        "Administer: another head" => context.call(SetHead { number: BlockNumber(0) }).await,
        "Administer: unload a module" => context.call(unload).await.map(drop),
        "ReadNode: its version" => context.call(GetClientVersion).await.map(drop),
        _ => context.storage().put("mine", b"1").await,
    }
}

/// The node must check the grants for each frame: a plugin need not use the SDK.
async fn forge(_context: IntruderContext) -> Result<bool, Failure> {
    system::send_raw_request(SetHead::TOPIC.0, SetHead::SCHEMA.into(), &[0]);
    Ok(true)
}

async fn deafen(_context: IntruderContext, millis: Number) -> Result<u64, Failure> {
    Ok(system::request_without_reading(GetChainConfig::TOPIC.0, GetChainConfig::SCHEMA.into(), millis.0))
}
