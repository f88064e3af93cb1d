//! Messages of the namespace `debug`.

use tenon_api::{messages::*, *};

use crate::{
    Frames,
    samples::{ADDRESS, HASH, sealed, wei},
};

pub(crate) fn debug_frames(frames: &mut Frames) {
    let dumped = DumpedAccount {
        address: ADDRESS,
        account: Account { nonce: 1, balance: wei(2), balance_high: 0, code_hash: HASH, storage_root: HASH },
        code: Bytes::from_static(&[1]),
        slots: vec![(HASH, wei(3))],
    };
    let dump = AccountDump { root: HASH, accounts: vec![dumped], next: Some(ADDRESS) };
    frames.request(DumpAccounts { block: BlockId::LATEST, from: ADDRESS, limit: 4 }, dump);
    frames.request(GetModifiedAccounts { from: BlockNumber(1), to: BlockNumber(2) }, vec![ADDRESS]);
    frames.request(GetPreimage { hash: HASH }, Some(Bytes::from_static(&[1])));
    let range = GetStorageRange {
        block: HASH,
        transaction_index: -1,
        contract: ADDRESS,
        start: Bytes::from_static(&[0x80]),
        limit: 3,
    };
    let slots = vec![StorageRangeSlot { hash: HASH, slot: B256::ZERO, value: wei(4) }];
    frames.request(range, Ok(StorageRange { slots, next: Some(HASH) }));
    let file = TableFile { column: "headers".to_owned(), level: 6, bytes: 5, name: "/000007.sst".to_owned() };
    let statistics = DatabaseStatistics {
        files_by_level: vec![0, 1],
        files: vec![file],
        running_compactions: 2,
        pending_compactions: 3,
        delayed_write_rate: 4,
        is_write_stopped: true,
        cache_bytes: 8,
        cache_capacity: 9,
        cache_pinned_bytes: 10,
        snapshots: 11,
    };
    frames.request(GetDatabaseStatistics, statistics);
    frames.request(CompactDatabase, ());
    frames.request(GetBadBlocks, vec![sealed()]);
    let memory = MemoryStatistics { resident: 1, anonymous: 2, mapped: 3, peak: 4 };
    frames.request(GetMemoryStatistics, memory);
    let thread = ThreadInfo {
        id: 7,
        name: "trace".to_owned(),
        state: "S (sleeping)".to_owned(),
        waits_in: Some("futex_wait".to_owned()),
        cpu_milliseconds: 8,
    };
    frames.request(ListThreads, vec![thread]);
    frames.request(SetLogLevel { level: 3 }, ());
    frames.request(SetLogModules { modules: vec![("tenon_storage".to_owned(), 5)] }, ());
    reexecution_frames(frames);
}

fn reexecution_frames(frames: &mut Frames) {
    frames.request(GetIntermediateRoots { block: HASH }, Ok(vec![HASH]));
    let witness = ExecutionWitness {
        headers: vec![sealed()],
        codes: vec![Bytes::from_static(&[1])],
        nodes: vec![Bytes::from_static(&[2])],
    };
    frames.request(GetExecutionWitness { block: BlockId::LATEST }, Ok(witness));
    let account = DumpedAccount {
        address: ADDRESS,
        account: Account { nonce: 1, balance: wei(2), balance_high: 0, code_hash: HASH, storage_root: HASH },
        code: Bytes::new(),
        slots: vec![(HASH, wei(3))],
    };
    let range = GetAccountRange {
        block: BlockId::LATEST,
        start: Bytes::from_static(&[0x80]),
        limit: 4,
        with_code: false,
        with_storage: true,
    };
    frames.request(range, AccountRange { root: HASH, accounts: vec![account], next: Some(HASH) });
    let file = || "cpu.pprof".to_owned();
    let steps = [
        ProfileStep::StartCpu { file: file() },
        ProfileStep::StopCpu,
        ProfileStep::Cpu { file: file(), seconds: 3 },
        ProfileStep::WriteHeap { file: file() },
        ProfileStep::SetBlockingRate { nanoseconds: -1 },
        ProfileStep::WriteBlocking { file: file() },
        ProfileStep::Blocking { file: file(), seconds: 3 },
        ProfileStep::SetLockFraction { fraction: 5 },
        ProfileStep::WriteLocks { file: file() },
        ProfileStep::Locks { file: file(), seconds: 3 },
        ProfileStep::StartSpans { file: file() },
        ProfileStep::StopSpans,
        ProfileStep::Spans { file: file(), seconds: 3 },
    ];
    for step in steps {
        frames.request(RecordProfile { step }, ());
    }
    frames.request(ReadRequestFile { name: "block.rlp".to_owned(), limit: 5 }, Bytes::from_static(&[0xc0]));
}
