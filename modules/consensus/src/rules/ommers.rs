//! Uncles: at most two, each a valid header whose parent is an ancestor two to seven generations up, and none
//! of them an ancestor or included before (Yellow Paper 11.1).

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use tenon_api::{B256, Block, ChainReader, EMPTY_OMMERS_HASH, SealedHeader};
use tenon_chain::ChainSpec;

use super::header;
use crate::violation::Violation;

/// Maximum number of uncles of a block.
const MAX_OMMERS: usize = 2;
/// Maximum number of generations between an uncle's parent and the block.
const MAX_OMMER_DEPTH: usize = 7;

/// The block's recent ancestors by hash, and the uncles that they and the block itself include.
struct Ancestry {
    ancestors: HashMap<B256, Arc<SealedHeader>>,
    used: HashSet<B256>,
}

pub(crate) fn verify(spec: &ChainSpec, block: &Block, chain: &dyn ChainReader) -> Result<(), Violation> {
    if block.ommers.is_empty() {
        return Ok(());
    }
    if block.ommers.len() > MAX_OMMERS {
        return Err(Violation::new("uncles", block.ommers.len(), format_args!("at most {MAX_OMMERS}")));
    }
    let mut ancestry = gather(block, chain)?;
    for ommer in &block.ommers {
        let ommer = tenon_chain::seal(ommer.clone());
        verify_one(spec, block, &ommer, &mut ancestry)?;
    }
    Ok(())
}

fn gather(block: &Block, chain: &dyn ChainReader) -> Result<Ancestry, Violation> {
    let mut ancestry = Ancestry { ancestors: HashMap::new(), used: HashSet::from([block.hash()]) };
    let mut hash = block.header.parent_hash;
    for _ in 0..MAX_OMMER_DEPTH {
        let ancestor = chain.header(hash).map_err(|error| Violation::unreadable("uncles", &error))?;
        let Some(ancestor) = ancestor else { break };
        if ancestor.ommers_hash != EMPTY_OMMERS_HASH {
            let body = chain.block(hash).map_err(|error| Violation::unreadable("uncles", &error))?;
            let Some(body) = body else {
                let reason = format!("the body of ancestor {hash} is not in the database");
                return Err(Violation::unchecked("uncles", reason));
            };
            ancestry.used.extend(body.ommers.iter().map(|ommer| tenon_chain::seal(ommer.clone()).hash()));
        }
        let (number, parent) = (ancestor.number, ancestor.parent_hash);
        ancestry.ancestors.insert(hash, ancestor);
        if number == 0 {
            break;
        }
        hash = parent;
    }
    Ok(ancestry)
}

fn verify_one(spec: &ChainSpec, block: &Block, ommer: &SealedHeader, ancestry: &mut Ancestry) -> Result<(), Violation> {
    if !ancestry.used.insert(ommer.hash()) {
        return Err(Violation::new("uncle", ommer.hash(), "one that was not included before"));
    }
    if ancestry.ancestors.contains_key(&ommer.hash()) {
        return Err(Violation::new("uncle", ommer.hash(), "a block that is not an ancestor"));
    }
    let parent = ancestry.ancestors.get(&ommer.parent_hash).filter(|_| ommer.parent_hash != block.header.parent_hash);
    let Some(parent) = parent else {
        let found = format!("{} on parent {}", ommer.hash(), ommer.parent_hash);
        return Err(Violation::new("uncle", found, format_args!("a parent 2 to {MAX_OMMER_DEPTH} generations up")));
    };
    header::verify(spec, ommer, parent, false)
        .map_err(|violation| Violation::new("uncle header", violation, "a valid one"))
}
