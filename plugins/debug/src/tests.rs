//! The namespace from its callers' view: raw parameters in, JSON out, over a fake node.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_sdk::testing::FakeHost;

use super::*;

fn call_method(host: &FakeHost, method: &str, params: &str) -> Result<Value, Failure> {
    let answer = host.call_method(&table(), &Arc::new(Debug), method, params)?;
    Ok(serde_json::from_str(&answer).expect("JSON"))
}

fn head(number: u64) -> Arc<Head> {
    let header = Header { number, ..Header::default() };
    let header = Arc::new(SealedHeader::new_unchecked(header, B256::ZERO));
    Arc::new(Head { header, total_difficulty: U256::ZERO, finalized: None, safe: None })
}

/// A host with the encodings of block 3, of one transaction of the chain and of one in the pool.
fn raw_host() -> FakeHost {
    let host = FakeHost::new().answer(|request: GetRaw| {
        let block = |id: BlockId, bytes: Vec<Bytes>| (id == BlockId::number(3)).then_some(bytes);
        Ok(match request {
            GetRaw::Header(id) => block(id, vec![vec![0xf9].into()]),
            GetRaw::Block(id) => block(id, vec![vec![0x0f, 0x90].into()]),
            GetRaw::Receipts(id) => block(id, vec![vec![1].into(), vec![2].into()]),
            GetRaw::Transaction(hash) => (hash == B256::repeat_byte(1)).then(|| vec![vec![0x02].into()]),
            GetRaw::TransactionInBlock { .. } => None,
        })
    });
    host.answer(|request: GetRawPoolTransaction| Ok((request.hash == B256::repeat_byte(2)).then(|| vec![0x03].into())))
}

#[test]
fn raw_getters_return_data_or_name_the_missing_object() {
    let known = format!("[\"{}\"]", B256::repeat_byte(1));
    let waiting = format!("[\"{}\"]", B256::repeat_byte(2));
    let unknown = format!("[\"{}\"]", B256::ZERO);
    let cases = [
        ("debug_getRawHeader", r#"["0x3"]"#, Ok(json!("0xf9"))),
        ("debug_getRawBlock", r#"["0x3"]"#, Ok(json!("0x0f90"))),
        ("debug_getRawReceipts", r#"["0x3"]"#, Ok(json!(["0x01", "0x02"]))),
        ("debug_getRawTransaction", known.as_str(), Ok(json!("0x02"))),
        ("debug_getRawTransaction", waiting.as_str(), Ok(json!("0x03"))),
        ("debug_getRawTransaction", unknown.as_str(), Ok(Value::Null)),
        ("debug_getBlockRlp", "[3]", Ok(json!("0f90"))),
        ("debug_getBlockRlp", r#"["0x3"]"#, Ok(json!("0f90"))),
        ("debug_getBlockRlp", "[4]", Err(Failure::server("block #4 not found"))),
        ("debug_getRawBlock", r#"["0x4"]"#, Err(Failure::server("block #4 not found"))),
        ("debug_getRawHeader", r#"["finalized"]"#, Err(Failure::server("header #finalized not found"))),
        // The suite's own malformed requests (execution-apis, debug_getRaw*).
        (
            "debug_getRawBlock",
            r#"["2"]"#,
            Err(Failure::invalid_params("invalid argument 0: hex string without 0x prefix")),
        ),
        (
            "debug_getRawTransaction",
            r#"["1000000000000000000000000000000000000000000000000000000000000001"]"#,
            Err(Failure::invalid_params(
                "invalid argument 0: json: cannot unmarshal hex string without 0x prefix into Go value of type common.Hash",
            )),
        ),
    ];

    for (method, params, expected) in cases {
        assert_eq!(call_method(&raw_host(), method, params), expected, "{method} {params}");
    }
}

fn chain_info(profile: Profile) -> Arc<ChainInfo> {
    Arc::new(ChainInfo { chain_id: 1, network_id: 1, genesis_hash: B256::ZERO, profile })
}

/// Answers a trace with a description of its request.
fn tracing_host() -> FakeHost {
    FakeHost::new()
        .answer(|request: Trace| {
            let target = match request.target {
                TraceTarget::Transaction(_) => "transaction".to_owned(),
                TraceTarget::Block(id) => format!("{id:?}"),
                TraceTarget::RawBlock(bytes) => format!("raw {bytes}"),
                TraceTarget::Call { request, block, transaction_index, state_overrides, block_overrides } => format!(
                    "call gas {:?} at {block:?} index {transaction_index:?} overrides {} {}",
                    request.gas,
                    state_overrides.len(),
                    *block_overrides != BlockOverrides::default()
                ),
            };
            let options = format!("{:?}", request.options);
            let result = TraceResult::Script(json!({"target": target, "options": options}).to_string());
            Ok(Ok(TraceReply { dialect: TracerDialect::Ethereum, results: TraceResults::Single(result) }))
        })
        .answer(|_: GetChainInfo| Ok(chain_info(Profile::Ethereum)))
}

/// The options of a call tracer as [`tracing_host`] describes them.
fn call_tracer() -> String {
    let tracer = Tracer::Calls(CallTracerOptions::default());
    format!("{:?}", TraceOptions { tracer, timeout: None })
}

#[test]
fn traces_pass_their_target_and_options_on() {
    let hash = B256::ZERO;
    let options = r#"{"tracer": "callTracer"}"#;
    let none = format!("{:?}", TraceOptions::default());
    let cases = [
        ("debug_traceTransaction", format!("[\"{hash}\"]"), "transaction".to_owned(), &none),
        ("debug_traceTransaction", format!("[\"{hash}\",{options}]"), "transaction".to_owned(), &call_tracer()),
        ("debug_traceBlockByNumber", r#"["latest",null]"#.to_owned(), format!("{:?}", BlockId::LATEST), &none),
        ("debug_traceBlockByHash", format!("[\"{hash}\"]"), format!("{:?}", BlockId::hash(hash)), &none),
        ("debug_traceBlock", r#"["0xf901"]"#.to_owned(), "raw 0xf901".to_owned(), &none),
        (
            "debug_traceCall",
            r#"[{"gas":"0x5"},"0x2"]"#.to_owned(),
            format!("call gas Some(5) at {:?} index None overrides 0 false", BlockId::number(2)),
            &none,
        ),
    ];

    for (method, params, target, options) in cases {
        let answer = call_method(&tracing_host(), method, &params);
        assert_eq!(answer, Ok(json!({"target": target, "options": options})), "{method} {params}");
    }
}

#[test]
fn the_memory_of_a_long_trace_is_counted_while_it_is_written() {
    let host = FakeHost::new().from_client(7).answer(|_: Trace| {
        let trace = |_| TransactionTrace { hash: B256::ZERO, result: Ok(TraceResult::InstructionCount(1)) };
        let results = TraceResults::Block((0..10_000).map(trace).collect());
        Ok(Ok(TraceReply { dialect: TracerDialect::Ethereum, results }))
    });
    let params = r#"["0x1"]"#;

    // Nearly 900 KB of text, in a buffer that doubles.
    let traced = call_method(&host.clone().with_memory(4 << 20), "debug_traceBlockByNumber", params);
    assert_eq!(traced.map(|traces| traces.as_array().map(Vec::len)), Ok(Some(10_000)));
    let refused = call_method(&host.clone().with_memory(256 << 10), "debug_traceBlockByNumber", params);
    assert_eq!(refused.map_err(|failure| failure.code), Err(FailureCode::LIMIT_EXCEEDED));
    assert_eq!(host.held(7), 0);
}

#[test]
fn options_are_read_as_the_chains_family_reads_them() {
    let params = format!("[\"{}\",{{\"Tracer\":\"noSuchTracer\"}}]", B256::ZERO);
    let on = |profile| {
        let host = tracing_host().answer(move |_: GetChainInfo| Ok(chain_info(profile)));
        call_method(&host, "debug_traceTransaction", &params).expect("a trace")["options"].to_string()
    };

    assert!(on(Profile::Native).contains("is not available: there are callTracer, callTracerLegacy"));
    // Another spelling is another member there.
    assert!(on(Profile::Ethereum).contains("StructLogger"));
}

#[test]
fn a_traced_call_may_have_overrides_and_start_inside_a_block() {
    let options = concat!(
        r#"{"txIndex":"0x1","blockOverrides":{"number":"0x9"},"#,
        r#""stateOverrides":{"0x0100000000000000000000000000000000000000":{"balance":"0x1"}}}"#
    );

    let answer =
        call_method(&tracing_host(), "debug_traceCall", &format!(r#"[{{}},"latest",{options}]"#)).expect("a trace");

    let target = format!("call gas None at {:?} index Some(1) overrides 1 true", BlockId::LATEST);
    assert_eq!(answer, json!({"target": target, "options": format!("{:?}", TraceOptions::default())}));
}

#[test]
fn the_head_moves_only_back() {
    let host = FakeHost::new().answer(|_: GetHead| Ok(head(9))).answer(|request: SetHead| {
        if request.number == BlockNumber(5) { Ok(()) } else { Err(Failure::server("moved")) }
    });

    assert_eq!(call_method(&host, "debug_setHead", r#"["0x5"]"#), Ok(Value::Null));
    assert_eq!(call_method(&host, "debug_setHead", "[5]"), Ok(Value::Null));
    let refused = Failure::server("not allowed to rewind to a future block");
    assert_eq!(call_method(&host, "debug_setHead", r#"["0x9"]"#), Err(refused));
}

#[test]
fn seeds_are_hashed_once_per_epoch() {
    let host = FakeHost::new().answer(|request: GetHeader| {
        let BlockId::Number(number) = request.block else { return Ok(None) };
        let header = head(number.0).header.clone();
        Ok((number.0 < 70_000).then_some(StoredHeader { header, total_difficulty: U256::ZERO, is_canonical: true }))
    });

    assert_eq!(call_method(&host, "debug_seedHash", "[29999]"), Ok(json!(B256::ZERO)));
    assert_eq!(call_method(&host, "debug_seedHash", "[60000]"), Ok(json!(keccak256(keccak256(B256::ZERO)))));
    assert_eq!(call_method(&host, "debug_seedHash", "[70000]"), Err(Failure::server("block #70000 not found")));
}

#[test]
fn a_block_is_printed_as_text() {
    let transaction = Transaction {
        hash: B256::repeat_byte(1),
        chain_id: None,
        nonce: 5,
        gas_limit: 21_000,
        to: None,
        value: U256::from(16),
        input: vec![0xab].into(),
        payload: TransactionPayload::Legacy { gas_price: U256::from(3) },
        signature: TransactionSignature { v: 27, r: U256::from(1), s: U256::from(2) },
    };
    let block = Block {
        header: head(3).header.as_ref().clone(),
        transactions: vec![Arc::new(transaction)],
        ommers: Vec::new(),
        withdrawals: None,
        size: 1536,
    };
    let block = Arc::new(RecoveredBlock { block, senders: vec![Address::repeat_byte(2)] });
    let host = FakeHost::new().answer(move |_: GetBlock| {
        Ok(Some(StoredBlock { block: block.clone(), total_difficulty: U256::ZERO, is_canonical: true }))
    });

    let answer = call_method(&host, "debug_printBlock", "[3]").expect("a text");

    let text = answer.as_str().unwrap_or_default();
    assert!(text.starts_with("Block(#3): Size: 1.50 KiB {\n"), "{text}");
    for expected in ["\tNumber:\t\t    3\n", "TX(0101", "To:           [contract creation]", "Value:        0x10"] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
}

#[test]
fn a_state_is_dumped_page_by_page_without_prefixes() {
    let account = |byte: u8, slots: Vec<(B256, U256)>| DumpedAccount {
        address: Address::repeat_byte(byte),
        account: Account {
            nonce: 1,
            balance: U256::from(20),
            // The second has more than 256 bits (`docs/spec/chain.md` 8.1).
            balance_high: u64::from(byte == 2),
            code_hash: B256::ZERO,
            storage_root: B256::ZERO,
        },
        code: vec![0x60, byte].into(),
        slots,
    };
    let host = FakeHost::new()
        .answer(|_: GetHeader| {
            let header = head(7).header.clone();
            Ok(Some(StoredHeader { header, total_difficulty: U256::ZERO, is_canonical: true }))
        })
        .answer(move |request: DumpAccounts| {
            let is_first = request.from == Address::ZERO;
            let slots = vec![(B256::with_last_byte(3), U256::from(0x80))];
            let accounts = if is_first { vec![account(1, slots)] } else { vec![account(2, Vec::new())] };
            let next = is_first.then_some(Address::repeat_byte(2));
            Ok(AccountDump { root: B256::repeat_byte(9), accounts, next })
        });

    let dump = call_method(&host, "debug_dumpBlock", r#"["0x7"]"#).expect("a dump");

    assert_eq!(dump["root"], "00".repeat(32));
    assert_eq!(dump["accounts"].as_object().map(|accounts| accounts.len()), Some(2));
    let first = &dump["accounts"]["01".repeat(20)];
    assert_eq!((&first["balance"], &first["nonce"], &first["code"]), (&json!("20"), &json!(1), &json!("6001")));
    assert_eq!(first["storage"], json!({ "0".repeat(63) + "3": "8180" }));
    let whole = "115792089237316195423570985008687907853269984665640564039457584007913129639956";
    assert_eq!(dump["accounts"]["02".repeat(20)]["balance"], whole);
}

#[test]
fn ranges_of_storage_have_keys_their_hashes_and_the_next_key() {
    let host = FakeHost::new().answer(|request: GetStorageRange| {
        assert_eq!((request.transaction_index, request.limit, &request.start[..]), (2, -1, &[0x80][..]));
        let slot = StorageRangeSlot { hash: B256::repeat_byte(1), slot: B256::ZERO, value: U256::from(5) };
        Ok(Ok(StorageRange { slots: vec![slot], next: None }))
    });
    let params = format!(r#"["{}",2,"{}","0x80",-1]"#, B256::ZERO, Address::ZERO);

    let range = call_method(&host, "debug_storageRangeAt", &params).expect("a range");

    let value = B256::with_last_byte(5);
    assert_eq!(range["storage"][B256::repeat_byte(1).to_string()], json!({"key": B256::ZERO, "value": value}));
    assert_eq!(range["nextKey"], Value::Null);
}

/// A host with canonical blocks 1 to 9, and a block of another branch.
fn branched_host() -> FakeHost {
    let found = |number: u64, is_canonical| {
        let header = head(number).header.clone();
        Some(StoredHeader { header, total_difficulty: U256::ZERO, is_canonical })
    };
    FakeHost::new()
        .answer(move |request: GetHeader| {
            Ok(match request.block {
                BlockId::Number(number) if number.0 < 10 => found(number.0, true),
                BlockId::Hash { hash, .. } if hash == B256::repeat_byte(5) => found(5, false),
                _ => None,
            })
        })
        .answer(|request: GetModifiedAccounts| {
            let is_quiet = request.to.0 == 9;
            Ok(if is_quiet {
                Vec::new()
            } else {
                vec![Address::repeat_byte(1); (request.to.0 - request.from.0) as usize]
            })
        })
}

#[test]
fn modified_accounts_are_those_between_two_blocks_or_since_the_parent() {
    let account = json!(Address::repeat_byte(1));
    let by_number = [
        ("[3]", Ok(json!([account]))),
        ("[3,5]", Ok(json!([account, account]))),
        ("[8,9]", Ok(json!([]))),
        ("[5,5]", Err(Failure::server("start block height (5) must be less than end block height (5)"))),
        ("[26]", Err(Failure::server("start block 1a not found"))),
        ("[3,26]", Err(Failure::server("end block 26 not found"))),
    ];
    for (params, expected) in by_number {
        assert_eq!(call_method(&branched_host(), "debug_getModifiedAccountsByNumber", params), expected, "{params}");
    }
    let side = format!(r#"["{}"]"#, B256::repeat_byte(5));
    let refused = call_method(&branched_host(), "debug_getModifiedAccountsByHash", &side).err();
    assert!(refused.is_some_and(|failure| failure.message.starts_with("missing trie Node")));
}

#[test]
fn records_are_found_by_the_keys_of_the_reference() {
    let host = FakeHost::new()
        .answer(|_: GetHead| Ok(head(4)))
        .answer(|_: GetDatabaseStatistics| Ok(DatabaseStatistics { snapshots: 2, ..DatabaseStatistics::default() }));
    let no_files = "Compactions\n Level |   Tables   |    Size(MB)\n-------+------------+---------------\n\
                    -------+------------+---------------\n Total |          0 |       0.00000\n";
    let cases = [
        ("debug_dbGet", r#"["LastBlock"]"#, Ok(json!(head(4).header.hash()))),
        ("debug_dbGet", r#"["0x4c617374426c6f636b"]"#, Ok(json!(head(4).header.hash()))),
        ("debug_dbGet", r#"["nothing"]"#, Err(Failure::server("leveldb: not found"))),
        ("debug_dbGet", r#"["0x"]"#, Err(Failure::server("empty hex string"))),
        ("debug_chaindbProperty", r#"[""]"#, Ok(json!(no_files))),
        ("debug_chaindbProperty", r#"["leveldb.stats"]"#, Ok(json!(no_files))),
        ("debug_chaindbProperty", r#"["alivesnaps"]"#, Ok(json!("2"))),
        ("debug_chaindbProperty", r#"["leveldb.nonsense"]"#, Err(Failure::server("leveldb: not found"))),
    ];

    for (method, params, expected) in cases {
        assert_eq!(call_method(&host, method, params), expected, "{method} {params}");
    }
}

#[test]
fn refused_blocks_are_listed_with_native_items_in_base64() {
    let host = FakeHost::new().answer(|_: GetBadBlocks| {
        let native_seal = Some(NativeSeal { validator: vec![1, 2, 3, 4].into(), ..NativeSeal::default() });
        let header = Header { number: 3, native_seal, ..Header::default() };
        Ok(vec![Arc::new(SealedHeader::new_unchecked(header, B256::repeat_byte(8)))])
    });

    let blocks = call_method(&host, "debug_getBadBlocks", "[]").expect("a list");

    assert_eq!(blocks[0]["hash"], json!(B256::repeat_byte(8)));
    let header = &blocks[0]["header"];
    let items = (&header["number"], &header["validator"], &header["validators"], &header["baseFeePerGas"]);
    assert_eq!(items, (&json!("0x3"), &json!("AQIDBA=="), &json!(""), &Value::Null));
}

#[test]
fn process_statistics_have_the_names_of_go() {
    let host = FakeHost::new()
        .answer(|_: GetMemoryStatistics| Ok(MemoryStatistics { resident: 40, anonymous: 30, mapped: 90, peak: 50 }))
        .answer(|_: ListThreads| {
            let thread = |id, waits_in: Option<&str>| ThreadInfo {
                id,
                name: "tenon".to_owned(),
                state: "S (sleeping)".to_owned(),
                waits_in: waits_in.map(str::to_owned),
                cpu_milliseconds: 20,
            };
            Ok(vec![thread(1, Some("futex")), thread(2, None)])
        });

    let memory = call_method(&host, "debug_memStats", "[]").expect("figures");
    let stacks = call_method(&host, "debug_stacks", "[]").expect("a text");

    assert_eq!((&memory["Alloc"], &memory["Sys"], &memory["HeapIdle"]), (&json!(30), &json!(40), &json!(60)));
    assert_eq!(memory["PauseNs"].as_array().map(Vec::len), Some(256));
    assert_eq!(memory["BySize"].as_array().map(Vec::len), Some(61));
    let expected = "thread 1 [tenon]: S (sleeping) in futex, 20 ms of processor time\n\
                    thread 2 [tenon]: S (sleeping), 20 ms of processor time\n";
    assert_eq!(stacks, json!(expected));
    assert_eq!(call_method(&host, "debug_gcStats", "[]").expect("figures")["NumGC"], json!(0));
}

#[test]
fn settings_of_the_log_are_checked_before_they_are_sent_to_the_node() {
    let host = FakeHost::new()
        .answer(|request: SetLogLevel| if request.level == 5 { Ok(()) } else { Err(Failure::server("another level")) })
        .answer(|request: SetLogModules| {
            assert_eq!(request.modules, [("tenon_storage".to_owned(), 4)]);
            Ok(())
        });

    assert_eq!(call_method(&host, "debug_verbosity", "[9]"), Ok(Value::Null));
    assert_eq!(call_method(&host, "debug_vmodule", r#"["storage/*=4"]"#), Ok(Value::Null));
    let refused = Failure::server("expect comma-separated list of filename=N");
    assert_eq!(call_method(&host, "debug_vmodule", r#"["storage"]"#), Err(refused));
}

#[test]
fn profiles_are_recorded_by_the_node() {
    let file = || "profile".to_owned();
    let cases = [
        ("debug_startCPUProfile", r#"["profile"]"#, ProfileStep::StartCpu { file: file() }),
        ("debug_stopCPUProfile", "[]", ProfileStep::StopCpu),
        ("debug_cpuProfile", r#"["profile",3]"#, ProfileStep::Cpu { file: file(), seconds: 3 }),
        ("debug_writeMemProfile", r#"["profile"]"#, ProfileStep::WriteHeap { file: file() }),
        ("debug_setBlockProfileRate", "[-1]", ProfileStep::SetBlockingRate { nanoseconds: -1 }),
        ("debug_writeBlockProfile", r#"["profile"]"#, ProfileStep::WriteBlocking { file: file() }),
        ("debug_blockProfile", r#"["profile",3]"#, ProfileStep::Blocking { file: file(), seconds: 3 }),
        ("debug_setMutexProfileFraction", "[5]", ProfileStep::SetLockFraction { fraction: 5 }),
        ("debug_writeMutexProfile", r#"["profile"]"#, ProfileStep::WriteLocks { file: file() }),
        ("debug_mutexProfile", r#"["profile",3]"#, ProfileStep::Locks { file: file(), seconds: 3 }),
        ("debug_startGoTrace", r#"["profile"]"#, ProfileStep::StartSpans { file: file() }),
        ("debug_stopGoTrace", "[]", ProfileStep::StopSpans),
        ("debug_goTrace", r#"["profile",3]"#, ProfileStep::Spans { file: file(), seconds: 3 }),
    ];
    for (method, params, step) in cases {
        let host = FakeHost::new().answer(move |request: RecordProfile| match request.step == step {
            true => Ok(()),
            false => Err(Failure::server(format!("{:?}", request.step))),
        });
        assert_eq!(call_method(&host, method, params), Ok(Value::Null), "{method}");
    }
}

#[test]
fn setting_the_target_of_the_missing_garbage_collector_is_refused() {
    let refused = call_method(&FakeHost::new(), "debug_setGCPercent", "[50]").expect_err("no collector");
    assert!(refused.message.starts_with("debug_setGCPercent: "), "{}", refused.message);
}

#[test]
fn a_block_in_a_file_is_traced_like_a_block_in_the_parameters() {
    let host = tracing_host().answer(|request: ReadRequestFile| match request.name.as_str() {
        "block.rlp" => Ok(Bytes::from_static(&[0xf9, 1])),
        name => Err(Failure::server(format!("{name}: elsewhere"))),
    });

    let traced = call_method(&host, "debug_traceBlockFromFile", r#"["block.rlp",{"tracer":"callTracer"}]"#);

    assert_eq!(traced, Ok(json!({"target": "raw 0xf901", "options": call_tracer()})));
    let refused = call_method(&host, "debug_traceBlockFromFile", r#"["/etc/passwd"]"#);
    assert_eq!(refused, Err(Failure::server("/etc/passwd: elsewhere")));
}

#[test]
fn roots_inside_a_block_are_a_list() {
    let host = FakeHost::new().answer(|request: GetIntermediateRoots| Ok(Ok(vec![request.block, B256::ZERO])));
    let hash = B256::repeat_byte(7);

    let roots = call_method(&host, "debug_intermediateRoots", &format!(r#"["{hash}",{{"reexec":128}}]"#));

    assert_eq!(roots, Ok(json!([hash, B256::ZERO])));
}

#[test]
fn a_witness_has_the_form_of_go_ethereum() {
    let host = FakeHost::new().answer(|request: GetExecutionWitness| {
        assert_eq!(request.block, BlockId::number(3));
        let (codes, nodes) = (vec![Bytes::from_static(&[0x60])], vec![Bytes::from_static(&[0xc0])]);
        Ok(Ok(ExecutionWitness { headers: vec![head(2).header.clone()], codes, nodes }))
    });

    let witness = call_method(&host, "debug_executionWitness", r#"["0x3"]"#).expect("a witness");

    assert_eq!(witness["headers"][0]["number"], "0x2");
    assert_eq!(witness["headers"][0]["requestsHash"], Value::Null);
    assert_eq!((&witness["codes"], &witness["state"]), (&json!(["0x60"]), &json!(["0xc0"])));
    assert_eq!(witness.get("keys"), Some(&Value::Null));
    let refused = call_method(&host, "debug_executionWitness", r#"["pending"]"#).expect_err("the pending block");
    assert_eq!(refused.code, FailureCode::INVALID_PARAMS);
}

#[test]
fn a_range_of_accounts_has_the_form_of_go_ethereum() {
    let host = FakeHost::new().answer(|request: GetAccountRange| {
        assert_eq!((request.limit, &request.start[..]), (256, &[0x80][..]));
        assert_eq!((request.with_code, request.with_storage), (false, true));
        let account = DumpedAccount {
            address: Address::repeat_byte(0xab),
            account: Account {
                nonce: 1,
                balance: U256::from(20),
                balance_high: 0,
                code_hash: B256::ZERO,
                storage_root: B256::ZERO,
            },
            code: Bytes::new(),
            slots: vec![(B256::with_last_byte(1), U256::from(0x0102))],
        };
        Ok(AccountRange { root: B256::ZERO, accounts: vec![account], next: Some(B256::repeat_byte(0xff)) })
    });

    for limit in ["0", "-1", "256", "100000"] {
        let params = format!(r#"["latest","0x80",{limit},true,false,false]"#);
        let range = call_method(&host, "debug_accountRange", &params).expect("a range");

        let address = Address::repeat_byte(0xab);
        let expected = json!({
            "root": "0".repeat(64),
            "accounts": {address.to_checksum(None): {
                "balance": "20",
                "nonce": 1,
                "root": B256::ZERO,
                "codeHash": B256::ZERO,
                "storage": {B256::with_last_byte(1).to_string(): "0102"},
                "address": address,
                "key": keccak256(address),
            }},
            "next": ::base64::engine::Engine::encode(&::base64::engine::general_purpose::STANDARD, [0xff; 32]),
        });
        assert_eq!(range, expected);
    }
}

/// Three blocks after genesis; the second is empty, and the last has a transaction that cannot be traced.
fn chain_host() -> FakeHost {
    let hash = |number: u64| B256::with_last_byte(u8::try_from(number).unwrap_or_default());
    FakeHost::new()
        .answer(move |request: GetHeader| {
            let number = match request.block {
                BlockId::Number(number) => number.0,
                BlockId::Tag(BlockTag::Earliest) => 0,
                _ => 3,
            };
            let header = Header { number, ..Header::default() };
            let header = Arc::new(SealedHeader::new_unchecked(header, hash(number)));
            Ok((number < 4).then_some(StoredHeader { header, total_difficulty: U256::ZERO, is_canonical: true }))
        })
        .answer(move |request: Trace| {
            let TraceTarget::Block(BlockId::Hash { hash, .. }) = request.target else {
                return Err(Failure::server("not asked by hash"));
            };
            let traced = |json: &str| Ok(TraceResult::Script(json.to_owned()));
            let results = match hash[31] {
                1 => vec![traced(r#"{"gas":1}"#)],
                2 => vec![],
                _ => vec![traced("{}"), Err(TraceFailure::TimedOut), traced("{}")],
            };
            let trace = |result| TransactionTrace { hash: B256::ZERO, result };
            let results = TraceResults::Block(results.into_iter().map(trace).collect());
            Ok(Ok(TraceReply { dialect: TracerDialect::Reference, results }))
        })
}

#[test]
fn tracing_a_range_sends_a_notification_for_each_block_with_transactions() {
    let items = chain_host().subscribe(&table(), &Arc::new(Debug), "traceChain", r#"["earliest","latest"]"#);

    let items: Vec<Value> = items
        .into_iter()
        .map(|item| item.expect("a notification"))
        .filter(|item| !item.is_empty())
        .map(|item| serde_json::from_str(&item).expect("JSON"))
        .collect();

    let expected = [
        json!({"block": "0x1", "hash": B256::with_last_byte(1), "traces": [{"result": {"gas": 1}}]}),
        json!({
            "block": "0x3",
            "hash": B256::with_last_byte(3),
            "traces": [{"result": {}}, {"error": "execution timeout"}, null]
        }),
    ];
    assert_eq!(items, expected);
}

#[test]
fn an_invalid_range_is_refused_with_the_text_of_the_reference() {
    let cases = [
        (r#"["0x2","0x1"]"#, "wrong parameter order: start(2) >= end(1)"),
        (r#"["0x9","latest"]"#, "not find start block 9"),
        (r#"["0x1","0x9"]"#, "not find end block 9"),
    ];
    for (params, expected) in cases {
        let items = chain_host().subscribe(&table(), &Arc::new(Debug), "traceChain", params);
        assert_eq!(items, [Err(Failure::server(expected))], "{params}");
    }
}

#[test]
fn every_block_number_accepts_every_tag() {
    let methods = [
        ("debug_traceBlockByNumber", ""),
        ("debug_traceCall", "{},"),
        ("debug_dumpBlock", ""),
        ("debug_getRawHeader", ""),
        ("debug_getRawBlock", ""),
        ("debug_getRawReceipts", ""),
    ];
    let tags = [BlockTag::Latest, BlockTag::Earliest, BlockTag::Pending, BlockTag::Finalized];
    for (method, before) in methods {
        for tag in tags {
            let host = tracing_host()
                .answer(move |request: GetHeader| {
                    assert_eq!(request.block, BlockId::Tag(tag));
                    let header = head(7).header.clone();
                    Ok(Some(StoredHeader { header, total_difficulty: U256::ZERO, is_canonical: true }))
                })
                .answer(|_: DumpAccounts| Ok(AccountDump { root: B256::ZERO, accounts: vec![], next: None }))
                .answer(move |request: GetRaw| {
                    let (GetRaw::Header(block) | GetRaw::Block(block) | GetRaw::Receipts(block)) = request else {
                        return Ok(None);
                    };
                    assert_eq!(block, BlockId::Tag(tag));
                    Ok(Some(vec![Bytes::new()]))
                });
            let name = format!("{tag:?}").to_lowercase();

            let answer = call_method(&host, method, &format!(r#"[{before}"{name}"]"#));

            assert!(answer.is_ok(), "{method} {name}: {answer:?}");
        }
    }
}
