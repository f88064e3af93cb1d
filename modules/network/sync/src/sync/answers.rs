//! Answers of peers: headers and bodies.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use tenon_api::SealedHeader;
use tenon_network_identity::NodeId;
use tenon_network_peers::Fault;

use super::ChainSync;
use crate::cycle::{Cycle, Stage, Step};
use crate::fetcher::Fetcher;
use crate::headers::{FillProblem, Mismatch};
use crate::peers::HeaderPurpose;
use crate::port::{Action, CheckedBody, LocalChain};

impl ChainSync {
    /// A peer has sent headers: the answer to a request, or unrequested ones.
    pub fn headers(&mut self, peer: NodeId, headers: Vec<SealedHeader>, chain: &dyn LocalChain, now: Duration) {
        self.now = now;
        let Some(known) = self.peers.0.get_mut(&peer) else { return };
        if known.take_late_headers(&headers, now) {
            return;
        }
        let Some(purpose) = known.take_headers(now) else { return };
        match purpose {
            HeaderPurpose::Announced { hash, .. } => self.take_announced(peer, hash, &headers, chain, now),
            HeaderPurpose::Fill { first } => self.take_fill(peer, first, headers),
            HeaderPurpose::Head { hash } => self.take_head(peer, hash, &headers),
            purpose => {
                if let (HeaderPurpose::Height { hash }, [header]) = (purpose, &headers[..])
                    && header.hash() == hash
                    && known.head == hash
                {
                    known.number = Some(header.number);
                }
                self.take_from_source(peer, purpose, headers, chain);
            }
        }
    }

    fn take_head(&mut self, peer: NodeId, hash: B256, headers: &[SealedHeader]) {
        match headers {
            [header] if header.hash() == hash => {
                let number = header.number;
                if let Some(known) = self.peers.0.get_mut(&peer)
                    && known.head == hash
                {
                    known.number = Some(number);
                }
                self.actions.push_back(Action::Height { peer, head: hash, number });
            }
            // Its head may have changed, and a block that was not final may be gone.
            [] => self.blame(peer, Fault::EmptyAnswer, "no header of its own head"),
            _ => self.blame(peer, Fault::WrongAnswer, "another header than that of its head"),
        }
    }

    fn take_from_source(
        &mut self,
        peer: NodeId,
        purpose: HeaderPurpose,
        headers: Vec<SealedHeader>,
        chain: &dyn LocalChain,
    ) {
        let Some(cycle) = self.cycle.as_mut().filter(|cycle| cycle.source == peer) else { return };
        if headers.iter().any(|header| self.fetcher.is_wrong(&header.hash())) {
            self.fail_cycle(Some((Fault::InvalidBlock, "a chain with a block that is known to be wrong")));
            return;
        }
        match cycle.take(purpose, headers, (chain.head(), chain)) {
            Step::Continue => {}
            // A block may have arrived in another way since the request, and the head of the peer may have changed.
            Step::NothingNew if cycle.claimed <= chain.head().total_difficulty => self.fail_cycle(None),
            Step::NothingNew => {
                self.fail_cycle(Some((Fault::WrongAnswer, "more total difficulty than its chain has")));
            }
            Step::Fail(fault, reason) => self.fail_cycle(Some((fault, reason))),
        }
    }

    fn take_fill(&mut self, peer: NodeId, first: u64, headers: Vec<SealedHeader>) {
        let Some(Stage::Download(wanted)) = self.cycle.as_mut().map(|cycle| &mut cycle.stage) else { return };
        let Err(problem) = wanted.take_fill(first, headers) else { return };
        wanted.release(peer, first);
        if let Some(known) = self.peers.0.get_mut(&peer) {
            // It has fewer blocks than it claims, or another branch.
            known.number = known.number.map(|number| number.min(first.saturating_sub(1)));
        }
        match problem {
            FillProblem::Mismatch(Mismatch(reason)) => self.blame(peer, Fault::WrongAnswer, reason),
            // The skeleton is from another peer: this one may have other blocks there, or none.
            FillProblem::OtherBranch => {}
        }
    }

    fn take_announced(
        &mut self,
        peer: NodeId,
        hash: B256,
        headers: &[SealedHeader],
        chain: &dyn LocalChain,
        now: Duration,
    ) {
        if !self.fetcher.take_header(peer, hash, headers) {
            self.blame(peer, Fault::WrongAnswer, "another header than announced");
            return;
        }
        let Some(header) = self.fetcher.header_of(&hash) else { return };
        let roots = (header.transactions_root, header.ommers_hash);
        if roots == (tenon_api::EMPTY_ROOT_HASH, tenon_api::EMPTY_OMMERS_HASH) {
            let block = tenon_chain::assemble_block(header, Vec::new(), Vec::new(), None);
            self.take_block(Arc::new(block), peer, chain, now);
        }
    }

    /// A peer has sent bodies: the answer to a request, or unrequested ones.
    pub fn bodies(&mut self, peer: NodeId, bodies: Vec<CheckedBody>, chain: &dyn LocalChain, now: Duration) {
        let Some(known) = self.peers.0.get_mut(&peer) else { return };
        if known.take_late_bodies(now, |asked| bodies_fit(asked, &bodies, &self.fetcher, self.cycle.as_ref())) {
            return;
        }
        let Some(asked) = known.take_bodies(now, bodies.len()) else { return };
        if let [(_, hash)] = asked[..]
            && let Some(header) = self.fetcher.header_of(&hash)
        {
            let fitting = bodies.into_iter().find(|body| body.belongs_to(&header));
            let Some(CheckedBody { body, .. }) = fitting else {
                self.fetcher.request_failed(peer, &hash);
                return;
            };
            let block = tenon_chain::assemble_block(header, body.transactions, body.ommers, None);
            self.take_block(Arc::new(block), peer, chain, now);
            return;
        }
        let Some(cycle) = &mut self.cycle else { return };
        let matched = cycle.blocks.take(peer, &asked, bodies);
        if matched.fitting == 0 {
            for (_, hash) in &asked {
                known.missing_blocks.insert(*hash);
            }
        }
        if matched.has_unrequested {
            known.pause(now);
            self.blame(peer, Fault::WrongAnswer, "a body that was not asked for");
        }
    }
}

/// Whether an answer has a body of a request. An empty answer fits every request.
fn bodies_fit(asked: &[(u64, B256)], bodies: &[CheckedBody], fetcher: &Fetcher, cycle: Option<&Cycle>) -> bool {
    if bodies.is_empty() {
        return true;
    }
    if let [(_, hash)] = asked
        && let Some(header) = fetcher.header_of(hash)
    {
        return bodies.iter().any(|body| body.belongs_to(&header));
    }
    cycle.is_none_or(|cycle| cycle.blocks.fits(asked, bodies))
}
