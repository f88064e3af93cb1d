//! What callers hand to the execution: proofs for the native contracts, options of traces.

/// The first byte chooses the contract, the rest is what a caller sends it.
pub(crate) fn proofs(input: &[u8]) {
    let Some((contract, proof)) = input.split_first() else { return };
    let is_ring = contract & 1 == 0;
    if tenon_execution::fuzzing::native_proof(is_ring, proof) {
        let mut cut = proof.to_vec();
        cut.pop();
        assert!(!tenon_execution::fuzzing::native_proof(is_ring, &cut), "half a proof proves nothing");
    }
}

/// The options object of a trace, as both profiles read it.
pub(crate) fn trace_options(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let problems = tenon_execution::fuzzing::trace_options(text);
    assert!(problems.iter().all(|problem| !problem.is_empty()));
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        assert_eq!(problems.len(), 2, "what is no JSON is no options object");
    }
}
