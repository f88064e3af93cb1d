//! Persistent state of the node and its plugins, decoded at a start: the journal of local transactions, the voting record,
//! the filters that one build of `eth` hands over to the next.

/// A journal: records decoded from any bytes decode again once encoded with checksums, even after damaged bytes.
pub(crate) fn journal(input: &[u8]) {
    let records = tenon_txpool::fuzzing::journal_records(input);
    let written: Vec<u8> = records.iter().flat_map(|record| tenon_txpool::fuzzing::journal_record(record)).collect();
    assert_eq!(tenon_txpool::fuzzing::journal_records(&written), records, "what was written is read again");
    let behind_damage = [&[0xff; 7], &written[..]].concat();
    assert_eq!(tenon_txpool::fuzzing::journal_records(&behind_damage), records, "damage costs no other record");
    for record in records {
        if let Ok(transaction) = tenon_chain::decode_transaction(&record) {
            assert_eq!(tenon_chain::encode_transaction(&transaction), record);
        }
    }
}

/// The voting record: a decoded record round-trips.
pub(crate) fn voting(input: &[u8]) {
    let Some(kept) = tenon_native_consensus::fuzzing::voting_record(input) else { return };
    let again = tenon_native_consensus::fuzzing::voting_record(&kept);
    assert_eq!(again.as_ref(), Some(&kept), "what was kept is read again");
}

/// Filters: decoded filters are handed over again, and decode again.
pub(crate) fn filters(input: &[u8]) {
    let handed = tenon_plugin_eth::fuzzing::handed_over(input);
    let again = tenon_plugin_eth::fuzzing::handed_over(&handed);
    // The order is that of a table with random hashing.
    assert_eq!(again.len(), handed.len(), "what was handed over is taken again");
}
