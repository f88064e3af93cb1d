//! Every kind of header with one change, and the resulting error: every field, every signature, every part of a
//! certificate. After each change the header is signed again by its legitimate signers, so that the error comes from
//! the rule and not from the seal.

mod certificates;
mod fields;
mod signatures;

use std::sync::{Arc, LazyLock};

use tenon_api::{Address, Header, NativeSeal, SealedHeader};

use super::{
    ContractCandidates, NativeEngine,
    recorded_chain::{key_of, resealed, sign},
    recorded_state::ModelledChain,
    v1_seal_hash,
};

/// Headers to which the same rules apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    V1,
    V1Checkpoint,
    V2,
    V2EpochSwitch,
}
use Class::{V1, V1Checkpoint, V2, V2EpochSwitch};

static LOCAL: LazyLock<ModelledChain> = LazyLock::new(|| ModelledChain::read("local"));

/// A header of a recorded chain.
struct Kind {
    name: &'static str,
    class: Class,
    chain: &'static ModelledChain,
    number: u64,
}

fn kinds() -> Vec<Kind> {
    let (v1switch, local) = (ModelledChain::v1switch(), &*LOCAL);
    let rows = [
        ("v1, first epoch, one signature", V1, v1switch, 500),
        ("v1 checkpoint, one signature", V1Checkpoint, v1switch, 900),
        ("v1, first of an epoch, two signatures", V1, v1switch, 901),
        ("v1, two signatures", V1, v1switch, 1_010),
        ("v1 checkpoint, two signatures, the last of v1", V1Checkpoint, v1switch, 1_800),
        ("v2, the first, on the last of v1", V2EpochSwitch, v1switch, 1_801),
        ("v2, the first with a certificate", V2, v1switch, 1_802),
        ("v2, epoch switch after the engines' switch, pays", V2EpochSwitch, v1switch, 2_700),
        ("v2, the first, on block 0", V2EpochSwitch, local, 1),
        ("v2", V2, local, 100),
        ("v2, after a round that failed", V2, local, 122),
        ("v2, epoch switch", V2EpochSwitch, local, 60),
        ("v2, epoch switch with a penalty", V2EpochSwitch, local, 168),
        ("v2, first of an epoch", V2, local, 169),
    ];
    rows.map(|(name, class, chain, number)| Kind { name, class, chain, number }).into()
}

impl Kind {
    fn header(&self) -> &SealedHeader {
        self.chain.chain.at(self.number)
    }

    fn parent(&self) -> &SealedHeader {
        self.chain.chain.at(self.number - 1)
    }

    /// An engine whose clock is at the chain's end.
    fn engine(&self) -> NativeEngine {
        let now = self.chain.chain.blocks.last().unwrap().header.timestamp;
        let source = Arc::new(ContractCandidates);
        NativeEngine::with(&self.chain.chain.spec, source, Arc::new(move || now)).unwrap()
    }

    fn verdict(&self, engine: &NativeEngine, header: &SealedHeader) -> String {
        match engine.check_header(header, self.parent(), self.chain) {
            Ok(()) => ACCEPTED.to_owned(),
            Err(error) => error.to_string(),
        }
    }

    const fn is_v1(&self) -> bool {
        matches!(self.class, V1 | V1Checkpoint)
    }

    fn author(&self, engine: &NativeEngine) -> Address {
        tenon_api::ConsensusEngine::author(engine, self.header()).unwrap()
    }

    /// The changed header, signed again by its own creator and, if it has one, the creator's partner.
    fn signed(&self, engine: &NativeEngine, mut header: Header) -> SealedHeader {
        let author = key_of(self.author(engine));
        if header.native_seal.is_none() {
            return tenon_chain::seal(header);
        }
        if !self.is_v1() {
            return resealed(header, &author);
        }
        let Some(start) = header.extra_data.len().checked_sub(65) else { return tenon_chain::seal(header) };
        header.extra_data = [&header.extra_data[..start], &sign(v1_seal_hash(&header), &author)].concat().into();
        let once = tenon_chain::seal(header.clone());
        let partner = engine.v1().second_signer(&once, self.parent(), self.chain).unwrap_or_default();
        if self.number > 900 && !partner.is_zero() {
            header.native_seal.as_mut().unwrap().validator = sign(v1_seal_hash(&header), &key_of(partner)).into();
        }
        tenon_chain::seal(header)
    }
}

fn seal_of(header: &mut Header) -> &mut NativeSeal {
    header.native_seal.as_mut().unwrap()
}

const ACCEPTED: &str = "accepted";
const NO_ANCESTOR: &str = "unknown ancestor";
const STRANGER: &str = "validator address is not in the master node list";
const COINBASE: &str = "validator and coinbase address in header does not match";
const LISTS: &str = "invalid field exist in a non-epoch swtich block";
const MASTERNODES: &str = "validators does not match what's stored in snapshot minus its penalty";
const EXTRA: &str = "invalid v2 extra in the block";
const NOT_NATIVE: &str = "not a native header: no validators, validator and penalties";
