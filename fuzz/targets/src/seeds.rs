//! Initial inputs of a search: real headers, blocks, messages and requests from `tests/data` and the crates' own test
//! data, and inputs kept from earlier searches (`fuzz/corpus`).

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use alloy_rlp::Encodable;
use flate2::read::GzDecoder;
use serde_json::Value;
use tenon_api::{Bytes, Log, Receipt, ReceiptOutcome, TransactionType};
use tenon_chain::BlockStream;
use tenon_native_consensus::{ExtraFields, QuorumCertificate, TimeoutCertificate};

/// Longer inputs slow a search down and find nothing more.
const MAX_LENGTH: usize = 4096;

/// Initial inputs of a target; always the same, short ones first.
///
/// # Panics
/// If the checkout lacks a file of its test data.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = made(target).into_iter().filter(|seed| seed.len() <= MAX_LENGTH).collect();
    let corpus = root().join("fuzz/corpus").join(format!("{target}.hex.gz"));
    if corpus.exists() {
        let lines = BufReader::new(unpacked(&corpus)).lines();
        seeds.extend(lines.map(|line| hex::decode(line.expect("a line")).expect("hexadecimal digits")));
    }
    seeds.sort_by(|one, other| one.len().cmp(&other.len()).then_with(|| one.cmp(other)));
    seeds.dedup();
    seeds
}

/// Dictionary words for a search, from `fuzz/words`; empty for targets whose inputs are not text. A word with the name of
/// another of these files stands for the words of that file; `\n` and `\x19` stand for these characters.
pub(crate) fn words(target: &str) -> Vec<String> {
    let keys = if target == "settings" { tenon_config::all_settings() } else { Vec::new() };
    let listed = if words_file(target).exists() { listed_words(target) } else { Vec::new() };
    keys.into_iter().map(|row| row.key.to_owned()).chain(listed).collect()
}

fn words_file(name: &str) -> PathBuf {
    root().join("fuzz/words").join(format!("{name}.txt"))
}

fn listed_words(name: &str) -> Vec<String> {
    let path = words_file(name);
    let written = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let listed = written.split_whitespace().flat_map(|word| match word.strip_suffix(".txt") {
        Some(file) => listed_words(file),
        None => vec![word.replace("\\n", "\n").replace("\\x19", "\x19")],
    });
    listed.collect()
}

fn made(target: &str) -> Vec<Vec<u8>> {
    match target {
        "envelope" => requests().map(String::into_bytes).collect(),
        "websocket" => websocket(),
        "parameters" => parameters(),
        "consensus_arguments" => consensus_arguments(),
        "hex" => hex_texts(),
        "header" => headers(),
        "block" => blocks(),
        "signatures" => crate::signatures::examples(&transactions()),
        "transaction" => transactions(),
        "receipt" => receipts(),
        "chain_file" => chain_files(),
        "native_extra" => native_extra(),
        "native_messages" => native_messages(),
        "genesis" => genesis(),
        "settings" => settings(),
        "bus_frames" => bus_frames(),
        "isolation_frames" => isolation_frames(),
        "trie" => trie_nodes(),
        "trie_changes" => trie_changes(),
        "native_proofs" => native_proofs(),
        "trace_options" => trace_options(),
        "script" => scripts(),
        "pool_journal" => pool_journals(),
        "voting_record" => voting_records(),
        "filter_handover" => tenon_plugin_eth::fuzzing::examples(),
        "header_file" => crate::node_files::header_files(&headers(), &blocks()),
        "module_choices" => module_choices(),
        "plugin_manifest" => plugin_manifests(),
        "plugin_library" => plugin_libraries(),
        "table_record" => crate::node_files::table_facts(),
        "stored_records" => crate::stored::examples(&blocks()),
        "key_file" => crate::key_files::files(),
        "signing_policy" => crate::signing::policies(),
        "signing_call" => crate::signing::calls(),
        "signing_request" => crate::signing::service_requests(),
        "signing_log" => crate::signing::audit_lines(),
        "enode" => crate::enodes::urls(),
        "network_handshake" => recorded_peers(&["dialed-local", "dialing"], crate::network::packets),
        "network_payloads" => recorded_peers(&["dialed-local", "transactions"], crate::network::compressed),
        "network_messages" => recorded_peers(&["dialed-staged", "consensus"], crate::network::recorded_messages),
        "network_datagrams" => recorded_peers(&["discovery"], crate::network::contents),
        "node_records" => crate::network::record_examples(),
        "bearer_token" => crate::access::tokens(),
        "device_frames" => crate::device::packets(),
        "device_messages" => crate::device::bodies(),
        "device_session" => crate::device::answers(),
        "device_typed_data" => crate::device::typed_data_texts(),
        "request_headers" => crate::access::header_lines(),
        "eth_arguments" => crate::eth::examples(&transactions()),
        "rlp_items" => rlp_items(),
        "exchange_orders" => exchange_orders(),
        "exchange_market" => exchange_markets(),
        _ => Vec::new(),
    }
}

/// What `read` takes out of recorded sessions.
fn recorded_peers(files: &[&str], read: fn(&Value) -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    files.iter().flat_map(|file| read(&json(&format!("tests/data/p2p/{file}.json.gz")))).collect()
}

/// The root of the checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn unpacked(path: &Path) -> Box<dyn Read> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_some_and(|extension| extension == "gz") {
        return Box::new(GzDecoder::new(file));
    }
    Box::new(file)
}

/// The first bytes of a file of the checkout, unpacked.
fn start_of(path: &str, max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    unpacked(&root().join(path)).take(max).read_to_end(&mut bytes).expect("readable test data");
    bytes
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&start_of(path, u64::MAX)).expect("JSON test data")
}

fn bytes_of(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap_or_default().trim_start_matches("0x")).expect("hexadecimal test data")
}

/// The values of a member in all lines of a file, without lines that serde cannot parse (broken surrogates).
fn lines(path: &str, member: &'static str) -> impl Iterator<Item = Value> + use<> {
    let lines = BufReader::new(unpacked(&root().join(path))).lines();
    lines.filter_map(move |line| {
        let mut line: Value = serde_json::from_str(&line.expect("a line")).ok()?;
        Some(line.get_mut(member)?.take())
    })
}

fn requests() -> impl Iterator<Item = String> {
    let recorded = ["http", "ipc", "ws"]
        .into_iter()
        .flat_map(|transport| lines(&format!("ipc/tests/data/protocol-{transport}.jsonl"), "raw"));
    recorded.filter_map(|raw| raw.as_str().map(str::to_owned))
}

fn websocket() -> Vec<Vec<u8>> {
    let frame = |first: u8, payload: &[u8]| {
        let mut frame = vec![first];
        match u8::try_from(payload.len()) {
            Ok(short) if short < 126 => frame.push(0x80 | short),
            _ => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        frame
    };
    vec![
        frame(0x81, b"{\"id\":1,\"method\":\"m\"}"),
        frame(0x82, &[7; 300]),
        [frame(0x01, b"{"), frame(0x89, b"ping"), frame(0x00, b"\"a\":"), frame(0x80, b"1}")].concat(),
        [frame(0x8a, b""), frame(0x88, &[0x03, 0xe8, b'b', b'y', b'e'])].concat(),
        frame(0x88, b""),
        [frame(0x81, b"a"), frame(0x81, b"b")].concat(),
        vec![0x81, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4],
    ]
}

fn parameters() -> Vec<Vec<u8>> {
    let path = "plugins/eth/tests/data/native/bad-params.jsonl";
    let lists = lines(path, "params").chain(requests().filter_map(|request| {
        let mut request: Value = serde_json::from_str(&request).ok()?;
        Some(request.get_mut("params")?.take())
    }));
    let values = lists.flat_map(|list| match list {
        Value::Array(values) => values,
        other => vec![other],
    });
    (0_u8..=255).cycle().zip(values).map(|(kind, value)| [&[kind], value.to_string().as_bytes()].concat()).collect()
}

fn hex_texts() -> Vec<Vec<u8>> {
    let long = ["0x", &"ab".repeat(32)].concat();
    let texts = ["", "0x", "0x0", "0x1", "0xff", "0x0x01", "xdc88", "XDC00", "1", "0x01", &long];
    let address = ["0x1111111111111111111111111111111111111111", "xdc1111111111111111111111111111111111111111"];
    texts.into_iter().chain(address).map(|text| text.as_bytes().to_vec()).collect()
}

fn headers() -> Vec<Vec<u8>> {
    let native = json("tests/data/chain/native-headers.json.gz");
    let native = native.as_array().into_iter().flatten().map(|header| bytes_of(&header["rlp"]));
    native
        .chain(ethereum_blocks().iter().map(|block| {
            let mut header = Vec::new();
            let mut encoded = block.as_slice();
            let block = tenon_chain::decode_block(&mut encoded).expect("recorded blocks decode");
            tenon_chain::encode_header(&block.header, &mut header);
            header
        }))
        .collect()
}

/// Headers as arguments, without the longest lists, and block ids.
fn consensus_arguments() -> Vec<Vec<u8>> {
    let names =
        ["\"latest\"", "\"committed\"", "\"pending\"", "\"0x10\"", "null", "12"].map(|name| name.as_bytes().to_vec());
    let header = |header: &tenon_api::Header| crate::consensus_arguments::written(header).into_bytes();
    native_headers().iter().map(header).chain(names).collect()
}

/// Some recorded blocks of every fork.
fn ethereum_blocks() -> Vec<Vec<u8>> {
    chain("tests/data/execution-apis/chain.rlp.gz", usize::MAX)
}

/// The first blocks of a chain file.
fn chain(path: &str, max: usize) -> Vec<Vec<u8>> {
    let mut stream = BlockStream::new(unpacked(&root().join(path)));
    let mut blocks = Vec::new();
    while blocks.len() < max
        && let Some(block) = stream.next_encoded().expect("recorded chains can be read")
    {
        blocks.push(block.to_vec());
    }
    blocks
}

fn blocks() -> Vec<Vec<u8>> {
    [
        ethereum_blocks(),
        chain("tests/data/native/chains/staged.rlp.gz", 40),
        chain("tests/data/chain/native-sample.rlp.gz", 20),
    ]
    .concat()
}

fn transactions() -> Vec<Vec<u8>> {
    let blocks = blocks()
        .into_iter()
        .map(|block| tenon_chain::decode_block(&mut block.as_slice()).expect("recorded blocks decode"));
    blocks
        .flat_map(|block| block.transactions)
        .map(|transaction| tenon_chain::encode_transaction(&transaction))
        .collect()
}

fn receipts() -> Vec<Vec<u8>> {
    let log = |topics: u8, data: &[u8]| Log {
        address: [9; 20].into(),
        topics: (0..topics).map(|topic| [topic; 32].into()).collect(),
        data: Bytes::copy_from_slice(data),
    };
    let receipt = |transaction_type, outcome, logs| {
        let receipt = Receipt { transaction_type, outcome, cumulative_gas_used: 21_000, gas_used: 21_000, logs };
        tenon_chain::encode_receipt(&receipt)
    };
    vec![
        receipt(TransactionType::Legacy, ReceiptOutcome::StateRoot([1; 32].into()), vec![]),
        receipt(TransactionType::Legacy, ReceiptOutcome::Status(true), vec![log(3, b"data")]),
        receipt(TransactionType::AccessList, ReceiptOutcome::Status(false), vec![]),
        receipt(TransactionType::DynamicFee, ReceiptOutcome::Status(true), vec![log(0, b""), log(4, &[7; 64])]),
        receipt(TransactionType::Blob, ReceiptOutcome::Status(true), vec![log(1, &[0; 32])]),
        receipt(TransactionType::SetCode, ReceiptOutcome::Status(true), vec![]),
    ]
}

fn chain_files() -> Vec<Vec<u8>> {
    let blocks = blocks();
    let short: Vec<&Vec<u8>> = blocks.iter().filter(|block| block.len() < 1_500).collect();
    short.chunks(2).take(20).map(|pair| pair.iter().flat_map(|block| block.iter().copied()).collect()).collect()
}

/// Choices in the node's form.
fn module_choices() -> Vec<Vec<u8>> {
    let settled = r#"{"is_enabled":true,"path":"/plugins/eth.so","settings":""}"#;
    let choice = |state: &str, settled: &str| {
        format!(r#"{{"state":"{state}","path":"/eth.so","settings":"{{}}","settled":{settled}}}"#)
    };
    let texts = [
        "{\"modules\":{}}".to_owned(),
        format!("{{\"modules\":{{\"eth\":{}}},\"actors\":{{}}}}", choice("disabled", settled)),
        format!("{{\"modules\":{{\"eth\":{},\"mine\":{}}}}}", choice("unloaded", settled), choice("enabled", "null")),
        "{\"modules\":{},\"actors\":{\"http\":{\"is_enabled\":false,\"is_wanted\":true}}}".to_owned(),
    ];
    texts.map(String::into_bytes).into()
}

/// The bodies of the frames in which plugins send their manifests, one in this build's form.
fn plugin_manifests() -> Vec<Vec<u8>> {
    let body = |capability: &str, needs: &str, flags: [u8; 2]| {
        let text =
            |text: &str| [&u32::try_from(text.len()).unwrap_or_default().to_le_bytes()[..], text.as_bytes()].concat();
        let counted = |items: &[Vec<u8>]| {
            [&u32::try_from(items.len()).unwrap_or_default().to_le_bytes()[..], &items.concat()].concat()
        };
        let head = [text("good"), text("good"), text("1.0"), text("rustc"), text(needs), vec![1, 0, 1]].concat();
        let capabilities = if capability.is_empty() { vec![] } else { vec![text(capability)] };
        let method = [text("good_one"), flags.to_vec(), text("{}")].concat();
        [head, counted(&capabilities), counted(&[method]), counted(&[text("things")])].concat()
    };
    let capabilities =
        tenon_api::Capability::ALL.iter().map(|capability| body(capability.name(), "eth >= 1.2, net", [0, 1]));
    let mut bodies: Vec<Vec<u8>> = capabilities.collect();
    bodies.extend([body("", "", [1, 0]), body("none", "", [0, 0]), body("", "e th", [0, 0])]);
    bodies
}

/// Heads of libraries: a complete one, a truncated one, a text.
fn plugin_libraries() -> Vec<Vec<u8>> {
    let machine: u8 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    let library = |segments: u8, length: usize| {
        let mut bytes = vec![0; length];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (bytes[16], bytes[18], bytes[32], bytes[54], bytes[56]) = (3, machine, 64, 56, segments);
        // The file range of the first segment: offset and size.
        if let Some(size) = bytes.get_mut(64 + 32) {
            *size = 100;
        }
        bytes
    };
    vec![library(0, 64), library(1, 200), library(2, 100), b"a text".to_vec(), Vec::new()]
}

/// Items from blocks, and leaves of tries.
fn rlp_items() -> Vec<Vec<u8>> {
    let account = {
        let mut items = vec![1, 5];
        for byte in [0x56_u8, 0xc5] {
            items.push(0xa0);
            items.extend_from_slice(&[byte; 32]);
        }
        [vec![0xf8, u8::try_from(items.len()).unwrap_or_default()], items].concat()
    };
    let nested = vec![0xc5, 0xc4, 0xc3, 0xc2, 0xc1, 0xc0];
    transactions().into_iter().take(30).chain([account, nested, vec![0x82, 1, 0], vec![5]]).collect()
}

/// Batches and orders of recorded markets, and records of books.
fn exchange_orders() -> Vec<Vec<u8>> {
    let scenarios = json("tests/data/native/exchange.json.gz");
    let blocks =
        scenarios.as_array().into_iter().flatten().flat_map(|scenario| scenario["Blocks"].as_array()).flatten();
    let orders = blocks.filter_map(|block| block["Orders"].as_array()).flatten().map(bytes_of);
    let orders: Vec<Bytes> = orders.step_by(97).take(24).map(Bytes::from).collect();
    let batches = orders.chunks(2).map(|pair| [vec![0], crate::execution::batch_of(pair)].concat());
    let record = {
        let roots = [&[0xa0][..], &[9; 32]].concat().repeat(4);
        [&[2, 0xf8, 6 + 4 * 33][..], &[1, 5, 6, 7, 8, 9], &roots].concat()
    };
    let level = [&[3, 0xe2, 5, 0xa0][..], &[7; 32]].concat();
    let empty = [&b"\0{}"[..], b"\0{\"Data\":[]}", b"\0"].map(<[u8]>::to_vec);
    let single = orders.iter().map(|order| [&[1], &order[..]].concat());
    batches.chain(single).chain(empty).chain([record, level, vec![4, 0x82, 1, 2]]).collect()
}

/// Markets of a few matching orders, with and without the end of a block or an epoch between them.
fn exchange_markets() -> Vec<Vec<u8>> {
    const BEGIN: [u8; 6] = [10, 20, 18, 6, 150, 1];
    // Kind, pair, price and its shift, quantity and its shift, number, unused.
    let order = |kind: u8, price: u8, quantity: u8, id: u8| [kind, 0, price, 60, quantity, 70, id, 0];
    let (sell, buy) = (order(0, 9, 5, 1), order(0b1000, 10, 7, 2));
    let (market, cancel) = (order(0b1010, 0, 3, 3), order(0b0110, 9, 5, 1));
    let (block, epoch) = (order(7 << 5, 8, 2, 4), [0xff; 8]);
    [
        vec![sell, buy],
        vec![sell, market, cancel],
        vec![sell, sell, buy, block, epoch, market, cancel],
        vec![buy, [1, 2, 9, 0, 5, 0, 1, 0], block, [9, 2, 9, 0, 5, 0, 1, 0]],
        vec![sell; 20],
    ]
    .map(|steps| [&BEGIN[..], &steps.concat()].concat())
    .into()
}

fn native_headers() -> Vec<tenon_api::Header> {
    let decoded = headers().into_iter().filter_map(|header| tenon_chain::decode_header(&mut header.as_slice()).ok());
    decoded.filter(|header| header.native_seal.is_some()).collect()
}

fn native_extra() -> Vec<Vec<u8>> {
    native_headers()
        .into_iter()
        .flat_map(|header| {
            let seal = header.native_seal.unwrap_or_default();
            [header.extra_data.to_vec(), seal.validators.to_vec(), seal.penalties.to_vec()]
        })
        .chain([b"1\0\0\0 12\0\x31\x30\x37\0".to_vec()])
        .collect()
}

fn native_messages() -> Vec<Vec<u8>> {
    let file = json("tests/data/native/live-messages.json");
    let live = file["messages"].as_array().into_iter().flatten().map(|message| {
        let kind = match message["name"].as_str() {
            Some("Vote") => 3,
            Some("Timeout") => 4,
            _ => 5,
        };
        [vec![kind], bytes_of(&message["payload"])].concat()
    });
    let certificates = native_headers().into_iter().filter_map(|header| {
        let quorum = ExtraFields::decode(&header.extra_data).ok()?.quorum;
        Some([vec![1], alloy_rlp::encode(&quorum)].concat())
    });
    live.chain(certificates).collect()
}

fn genesis() -> Vec<Vec<u8>> {
    const SMALL: &str = r#"{"config":{"chainId":1,"homesteadBlock":0,"londonBlock":0,"shanghaiTime":"0x1","cancunTime":2,
        "terminalTotalDifficulty":0,"blobSchedule":{"cancun":{"target":3,"max":6,"baseFeeUpdateFraction":3338477}}},
        "difficulty":"0x1","gasLimit":"0x1c9c380","extraData":"0x","timestamp":"0x0",
        "alloc":{"1111111111111111111111111111111111111111":{"balance":"0x1","nonce":"1","code":"0x60","storage":{"0x01":"0x02"}}}}"#;
    const NATIVE: &str = r#"{"config":{"chainId":5151,"XDPoS":{"period":2,"epoch":900,"reward":5000,"rewardCheckpoint":900,"gap":450,
        "v2":{"switchEpoch":1,"switchBlock":900,"config":{"maxMasternodes":108,"switchRound":0,"certificateThreshold":0.667}}}},
        "difficulty":"0x1","gasLimit":"0x47b760","alloc":{"xdc0000000000000000000000000000000000000088":{"balance":"1"}}}"#;
    let devnet = start_of("tests/data/chain/native-genesis-devnet.json.gz", u64::MAX);
    let config = serde_json::from_slice::<Value>(&devnet).map(|mut genesis| {
        genesis["alloc"] = Value::Object(serde_json::Map::new());
        genesis.to_string().into_bytes()
    });
    vec![SMALL.as_bytes().to_vec(), NATIVE.as_bytes().to_vec(), config.unwrap_or_default()]
}

fn settings() -> Vec<Vec<u8>> {
    let rows = tenon_config::all_settings();
    let values = rows.iter().filter(|row| !row.default.to_json().is_null());
    let file: String = values.clone().map(|row| format!("{} = {}\n", row.key, row.default.to_json())).collect();
    let variables: String =
        values.clone().take(20).map(|row| format!("{}={}\n", row.environment(), row.default.to_json())).collect();
    let halves = file.split_at(file.len() / 2);
    let plugin = "[plugins.eth]\nenabled = true\nisolation = \"process\"\ncapabilities = [\"chain\"]\n[plugins.eth.settings]\na = 1\n";
    vec![
        file.clone().into_bytes(),
        halves.0.rsplit_once('\n').map_or("", |(whole, _)| whole).as_bytes().to_vec(),
        format!("={variables}").into_bytes(),
        plugin.as_bytes().to_vec(),
        b"[http]\nport = 9545\napi = [\"eth\", \"net\"]\n".to_vec(),
        b"=TENON_HTTP_PORT=9545\nTENON_HTTP_API=eth,net".to_vec(),
    ]
}

fn bus_frames() -> Vec<Vec<u8>> {
    let text = String::from_utf8(start_of("core/api/tests/golden_frames.txt", u64::MAX)).expect("text");
    let frames = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let topic = u32::from_str_radix(words.next()?, 16).ok()?;
        let position = crate::messages::KINDS.iter().position(|kind| kind.topic == topic)?;
        let is_reply = words.nth(1)? == "reply";
        let frame = hex::decode(words.next_back()?).ok()?;
        Some([&[u8::try_from(position).ok()?, u8::from(is_reply)], frame.as_slice()].concat())
    });
    frames.collect()
}

fn isolation_frames() -> Vec<Vec<u8>> {
    let frame = |kind: u8, body: &[u8]| {
        let length = u32::try_from(9 + body.len()).unwrap_or_default().to_le_bytes();
        [&length[..], &[kind], &7_u64.to_le_bytes(), body].concat()
    };
    let text =
        |text: &str| [&u32::try_from(text.len()).unwrap_or_default().to_le_bytes()[..], text.as_bytes()].concat();
    let none = [0; 4];
    let manifest = [
        text("good"),
        text("good"),
        text("1.0"),
        text("rustc"),
        text("eth >= 1"),
        vec![1, 0],
        vec![0, 0, 0, 0],
        vec![1, 0, 0, 0],
        text("good_one"),
        vec![0],
        text("{}"),
        vec![1, 0, 0, 0],
        text("things"),
    ]
    .concat();
    vec![
        [&[3][..], &frame(0x81, &manifest)].concat(),
        [&[200][..], &frame(0x84, &[&none[..], &none, b"\"0x1\""].concat()), &frame(0x8c, b"")].concat(),
        [&[0][..], &frame(0x84, &[&[0x83, 0xff, 0xff, 0xff][..], &text("1"), b"no"].concat())].concat(),
        [&[9][..], &frame(0x03, &text("[]")), &frame(0x85, b"{}"), &frame(0x86, &none)].concat(),
        vec![1, 0xff, 0xff, 0xff, 0xff],
        vec![1, 9, 0, 0, 0, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
}

fn trie_nodes() -> Vec<Vec<u8>> {
    let leaf = |path: &[u8], value: &[u8]| {
        let mut items = Vec::new();
        alloy_rlp::encode_list::<_, [u8]>(&[path, value], &mut items);
        items
    };
    let branch = {
        let mut payload = [&[0xa0][..], &[7; 32]].concat();
        payload.resize(payload.len() + 16, 0x80);
        [&[0xc0 + 49][..], &payload].concat()
    };
    let counted = |nodes: &[Vec<u8>]| {
        let nodes = nodes
            .iter()
            .flat_map(|node| std::iter::once(u8::try_from(node.len()).unwrap_or_default()).chain(node.iter().copied()));
        std::iter::once(0).chain(nodes).collect::<Vec<u8>>()
    };
    vec![
        counted(&[leaf(&[0x20, 0x12, 0x34], &[1; 40])]),
        counted(&[branch, leaf(&[0x31, 0x23], &[2; 60])]),
        vec![1, 0x20, 0x12],
        vec![1, 0x11, 0x12],
    ]
}

fn trie_changes() -> Vec<Vec<u8>> {
    let long: Vec<u8> =
        (0_u32..144).map(|step| u8::try_from((step * 37 + step / 3) % 251).unwrap_or_default()).collect();
    vec![vec![1, 2, 3, 1, 0, 3, 33, 40, 5, 65, 50, 6], long[..48].to_vec(), long]
}

/// Proofs that the reference accepts and refuses, those of rings first by their contract's number.
fn native_proofs() -> Vec<Vec<u8>> {
    let text = String::from_utf8(start_of("tests/data/native/proofs.txt", u64::MAX)).expect("text");
    let proofs = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let is_range_proof = words.next()? == "0x28";
        Some([&[u8::from(is_range_proof)], hex::decode(words.nth(1)?).ok()?.as_slice()].concat())
    });
    proofs.collect()
}

fn trace_options() -> Vec<Vec<u8>> {
    let options = [
        "null",
        "{}",
        r#"{"tracer":"callTracer","tracerConfig":{"onlyTopCall":true,"withLog":true},"timeout":"1m30s"}"#,
        r#"{"tracer":"prestateTracer","tracerConfig":{"diffMode":true},"reexec":128}"#,
        r#"{"tracer":"muxTracer","tracerConfig":{"callTracer":{"withLog":true},"4byteTracer":null}}"#,
        r#"{"tracer":"{step: function(){}, fault: function(){}, result: function(){return 1}}"}"#,
        r#"{"enableMemory":true,"disableStack":true,"disableStorage":true,"enableReturnData":true,"limit":3}"#,
        r#"{"TRACER":"opcountTracer","timeout":"-1.5h"}"#,
    ];
    options.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn scripts() -> Vec<Vec<u8>> {
    let scripts = [
        "{step: function(log, db) { this.a = [log.op.toString(), log.getGas(), log.stack.length()]; }, fault: function() {}, \
         result: function(ctx, db) { return this.a; }}",
        "{fault: function() {}, result: function() { return toHex(toContract2('0x1', '0x2', [3])) + bigInt(5).pow(9); }}",
        "{enter: function(frame) { frame.getValue(); }, exit: function(result) {}, fault: function() {}, \
         result: function() { var a = {}; a.a = a; return a; }}",
        "{fault: function() {}, result: function(ctx, db) { return db.getBalance('0x01'); }}",
        "{step: function f() { f(); }, fault: function() {}, result: function() {}}",
        "{fault: function() {}, result: function() { var a = []; for (;;) a.push(a.slice()); }}",
        "{setup: function(c) { throw JSON.parse(c); }, fault: 1, result: null}",
        "null",
        "{",
    ];
    scripts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn pool_journals() -> Vec<Vec<u8>> {
    let record = |raw: &Vec<u8>| tenon_txpool::fuzzing::journal_record(raw);
    let transactions = transactions();
    let short: Vec<&Vec<u8>> = transactions.iter().filter(|transaction| transaction.len() < 400).collect();
    short.chunks(3).take(12).map(|some| some.iter().flat_map(|raw| record(raw)).collect()).collect()
}

fn voting_records() -> Vec<Vec<u8>> {
    let quorums = native_headers().into_iter().filter_map(|header| ExtraFields::decode(&header.extra_data).ok());
    let record = |quorum: QuorumCertificate| {
        let (lock, committed) = (vec![quorum.clone()], vec![quorum.block]);
        let timeouts = TimeoutCertificate::default();
        let mut record = Vec::new();
        let members: [&dyn Encodable; 6] = [&quorum.block.round, &quorum, &lock, &timeouts, &7_u64, &committed];
        alloy_rlp::encode_list::<_, dyn Encodable>(&members, &mut record);
        record
    };
    let none = record(QuorumCertificate::default());
    quorums.map(|fields| record(fields.quorum)).chain([none.clone(), [&none[..], &[0]].concat(), Vec::new()]).collect()
}
