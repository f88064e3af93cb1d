//! Makes the chain block by block, as its masternodes would: certificate, leader of the round, execution, seal.

use std::{
    fs,
    io::{BufWriter, Write},
    path::Path,
    sync::Arc,
};

use alloy_primitives::{B256, Bytes};
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use tenon_api::{BlockNumber, ChainReader, InsertOutcome, RoundBuilder, SealAttributes, SealedHeader};
use tenon_chain::{Genesis, encode_block};
use tenon_execution::Importer;
use tenon_native_consensus::{
    BlockInfo, QuorumCertificate,
    v2::{MasternodeKey, leader, round_of, seal},
    vote_digest,
};
use tenon_storage::Store;

use super::{Opened, Plan, copy_database, network, traffic};
use crate::{Outcome, chain::store_options, traffic_error};

/// Blocks between two lines of progress.
const REPORT_EVERY: u64 = 1_000;

pub(crate) fn make(plan: &Plan) -> Outcome<Value> {
    prepare(plan)?;
    let chain = Opened::open(&plan.folder, &plan.folder.join("making"), store_options(512), false)?;
    let keys = network::masternodes(plan.masternodes)?;
    let maker = Maker { chain: &chain, importer: chain.importer()?, keys: &keys, signatures: plan.signatures };
    let head = chain.store.head();
    let state = chain.store.state_at(head.number())?;
    let mut traffic = traffic::Traffic::after(plan, &keys, &*state)?;
    for number in head.header.number + 1..=plan.blocks {
        maker.add_block(&mut traffic)?;
        if number.is_multiple_of(REPORT_EVERY) {
            eprintln!("block {number} of {}", plan.blocks);
        }
    }
    let head = chain.store.head();
    let transactions = write_chain(&chain.store, &plan.folder.join("chain.rlp"))?;
    Ok(json!({ "blocks": head.header.number, "transactions": transactions, "head": head.header.hash() }))
}

/// Writes the initial files of a new folder. The plan is written last, so an interrupted run begins again.
fn prepare(plan: &Plan) -> Outcome<()> {
    fs::create_dir_all(&plan.folder)?;
    let listed = plan.folder.join("plan.json");
    if listed.exists() {
        let kept: Value = serde_json::from_slice(&fs::read(&listed)?)?;
        if kept != plan.block_parameters() {
            return Err(format!("{} has another plan: {kept}", plan.folder.display()).into());
        }
        return Ok(());
    }
    let rules = network::rules(plan, &traffic::addresses()?)?;
    fs::write(plan.folder.join("genesis.json"), &rules)?;
    let genesis = network::genesis(plan, &rules)?;
    if plan.genesis_file {
        write_genesis_file(&genesis, &rules, &plan.folder.join("genesis-full.json"))?;
    }
    let (start, making) = (plan.folder.join("start"), plan.folder.join("making"));
    for folder in [&start, &making] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
    }
    let store = Store::open(&start, store_options(512))?;
    store.initialise(&genesis.commit()?, genesis.spec.chain_id)?;
    drop(store);
    copy_database(&start, &making)?;
    fs::write(listed, serde_json::to_vec_pretty(&plan.block_parameters())?)?;
    Ok(())
}

/// Writes the genesis file account by account: a JSON value with a million accounts would take gigabytes.
fn write_genesis_file(genesis: &Genesis, rules: &[u8], path: &Path) -> Outcome<()> {
    let mut file: Value = serde_json::from_slice(rules)?;
    let members = file.as_object_mut().ok_or("rules are no object")?;
    let contracts = members.remove("alloc").unwrap_or_else(|| Value::Object(Map::new()));
    let contracts = contracts.as_object().cloned().unwrap_or_default();
    let head = serde_json::to_string(&file)?;
    let head = head.strip_suffix('}').ok_or("rules are no object")?;
    let mut out = BufWriter::new(fs::File::create(path)?);
    write!(out, "{head},\"alloc\":{{")?;
    let mut separator = "";
    for (address, account) in &contracts {
        write!(out, "{separator}\"{address}\":{account}")?;
        separator = ",\n";
    }
    for (address, account) in &genesis.alloc {
        let name = format!("{address:#x}");
        if !contracts.contains_key(&name) {
            write!(out, "{separator}\"{name}\":{{\"balance\":\"{:#x}\"}}", account.balance)?;
            separator = ",\n";
        }
    }
    out.write_all(b"}}\n")?;
    Ok(out.flush()?)
}

struct Maker<'a> {
    chain: &'a Opened,
    importer: Importer,
    /// In the order of their stakes.
    keys: &'a [MasternodeKey],
    signatures: usize,
}

impl Maker<'_> {
    /// Adds the block of the next round; every round has one.
    fn add_block(&self, traffic: &mut traffic::Traffic) -> Outcome<()> {
        let parent = Arc::clone(&self.chain.store.head().header);
        let engine = self.chain.engine.v2();
        let quorum = self.certify(&parent)?;
        let round = quorum.block.round + 1;
        let turn = self.leader(&parent, round)?;
        let attributes = SealAttributes {
            timestamp: 0,
            beneficiary: turn.address(),
            gas_limit: parent.gas_limit,
            extra_data: Bytes::new(),
            mix_hash: B256::ZERO,
        };
        let draft = engine.prepare(&parent, round, quorum, &attributes, &*self.chain.store)?;
        let opens_epoch = draft.native_seal.as_ref().is_some_and(|seal| !seal.validators.is_empty());
        let transactions = match opens_epoch {
            // A block that opens an epoch has no transactions (`docs/spec/consensus.md` 7.2).
            true => Vec::new(),
            false => traffic.of_block(&parent, |number| self.header(number))?,
        };
        let wanted = transactions.len();
        let block = self
            .importer
            .build(&parent, draft, transactions, &|header| seal(header, turn))
            .map_err(|failure| format!("block {}: {failure:?}", parent.number + 1))?;
        if block.transactions.len() != wanted {
            return Err(traffic_error(block.header.number, block.transactions.len(), wanted));
        }
        match self.importer.insert(block)? {
            InsertOutcome::Head { .. } => Ok(()),
            outcome => Err(format!("block {} is no head: {outcome:?}", parent.number + 1).into()),
        }
    }

    /// A certificate of the block with the votes of the first masternodes. The certificate of block 0 needs no votes.
    fn certify(&self, header: &SealedHeader) -> Outcome<QuorumCertificate> {
        let engine = self.chain.engine.v2();
        let round = round_of(engine.consensus(), header)?;
        let gap_number = engine.epoch_info(header, &*self.chain.store)?.gap_number(engine.consensus());
        let block = BlockInfo { hash: header.hash(), round, number: header.number };
        let digest = vote_digest(&block, gap_number);
        let signers = if round == 0 { &[] } else { &self.keys[..self.signatures.min(self.keys.len())] };
        let signatures = signers.par_iter().map(|key| key.sign(digest).to_vec().into()).collect();
        Ok(QuorumCertificate { block, signatures, gap_number })
    }

    fn leader(&self, parent: &SealedHeader, round: u64) -> Outcome<&MasternodeKey> {
        let engine = self.chain.engine.v2();
        let opens_epoch = parent.number == 0 || round.is_multiple_of(engine.consensus().epoch);
        let masternodes = match opens_epoch {
            true => engine.epoch_lists(parent, round, &*self.chain.store)?.ok_or("no candidates")?.masternodes,
            false => engine.epoch_info(parent, &*self.chain.store)?.masternodes.to_vec(),
        };
        let turn = leader(engine.consensus(), round, &masternodes).ok_or("no masternodes")?;
        Ok(self.keys.iter().find(|key| key.address() == turn).ok_or("the leader has no key")?)
    }

    fn header(&self, number: u64) -> Outcome<Arc<SealedHeader>> {
        let store = &self.chain.store;
        let hash = store.canonical_hash(BlockNumber(number))?.ok_or("no such block")?;
        Ok(store.header(hash)?.ok_or("no such header")?)
    }
}

/// Writes blocks 1 to the head; returns the number of their transactions.
fn write_chain(store: &Store, path: &Path) -> Outcome<usize> {
    let unfinished = path.with_extension("unfinished");
    let mut file = BufWriter::new(fs::File::create(&unfinished)?);
    let mut transactions = 0;
    for number in 1..=store.head().header.number {
        let hash = store.canonical_hash(BlockNumber(number))?.ok_or("no such block")?;
        let block = store.block(hash)?.ok_or("no such block")?;
        transactions += block.transactions.len();
        file.write_all(&encode_block(&block))?;
    }
    file.flush()?;
    drop(file);
    fs::rename(unfinished, path)?;
    Ok(transactions)
}
