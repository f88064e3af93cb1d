//! What a native chain in a snapshot proves about its head.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tenon_api::{ChainReader as _, ConsensusEngine as _, SealedHeader};
use tenon_config::CertificateChecks;
use tenon_native_consensus::NativeEngine;
use tenon_native_consensus::v2::{V2Error, extra_of};
use tenon_storage::Store;

use super::NativeNode;
use crate::exit::Stop;
use crate::family::NodeFamily as _;
use crate::snapshot::trust::Trust;

/// Checks the head of a snapshot by its certificate (`docs/spec/consensus.md` 5.6, 6).
///
/// # Errors
/// [`Stop::Failure`] if it fails.
pub(super) fn trust_in_head(family: &NativeNode, source: &Path, store: &Arc<Store>) -> Result<Trust, Stop> {
    let head = store.head();
    let found = head.header.hash();
    let certifying = family.engine(store, CertificateChecks::All)?.certifying;
    let Some(engine) = certifying.filter(|_| head.header.number > 0) else { return Ok(Trust::Maker) };
    let refused = |error: &dyn fmt::Display| {
        Stop::Failure(format!(
            "snapshot {}: its head, block {} {found}, is not certified: {error}; use another snapshot, or give \
             the hash that you trust with --trust-hash",
            source.display(),
            head.header.number
        ))
    };
    let parent = store.header(head.header.parent_hash)?.ok_or_else(|| refused(&"the block before it is missing"))?;
    engine.verify_header(&head.header, &parent, &**store).map_err(|error| refused(&error))?;
    if !engine.is_v2(head.header.number) {
        return Ok(Trust::Seal);
    }
    certificate(&engine, &head.header, &parent, store).map_err(|error| refused(&error))
}

/// Describes the certificate of a head that was verified.
fn certificate(
    engine: &NativeEngine,
    head: &SealedHeader,
    parent: &SealedHeader,
    store: &Store,
) -> Result<Trust, V2Error> {
    let certificate = extra_of(head)?.quorum;
    let epoch = engine.v2().epoch_info(parent, store)?;
    Ok(Trust::Certificate {
        certified: certificate.block.number,
        hash: certificate.block.hash,
        signatures: certificate.signatures.len(),
        masternodes: epoch.masternodes.len(),
        epoch_switch: epoch.switch.number,
        epoch_switch_hash: epoch.switch.hash,
    })
}
