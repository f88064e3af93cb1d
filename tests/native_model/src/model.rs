//! The rules, transcribed directly: every query walks the chain from block 0.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use aes::{
    Aes256,
    cipher::{BlockCipherEncrypt, KeyInit},
};
use alloy_primitives::{Address, B256, U256, address};
use base64::{Engine as _, engine::general_purpose::URL_SAFE};
use tenon_api::{RecoveredBlock, Transaction};
use tenon_native_consensus::v1::draw_second_signers;

use crate::{
    VotingTable,
    network::{Network, coins},
    voting_table::VOTING,
};

pub(crate) const SIGNING: Address = address!("0000000000000000000000000000000000000089");
pub(crate) const RANDOMIZE: Address = address!("0000000000000000000000000000000000000090");
pub(crate) const SIGN: [u8; 4] = [0xe3, 0x41, 0xea, 0xa4];
pub(crate) const SET_SECRET: [u8; 4] = [0x34, 0xd3, 0x86, 0x00];
pub(crate) const SET_OPENING: [u8; 4] = [0xe1, 0x1f, 0x5b, 0xa2];
/// Blocks before an epoch's end in which a penalised candidate can show that it has returned.
const RETURN_WINDOW: u64 = 150;
/// Only every n-th block is signed.
const SIGNED: u64 = 15;

/// An epoch, from its first block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// Height of its first block.
    pub number: u64,
    /// The masternodes, in the order of turns.
    pub masternodes: Vec<Address>,
    /// The penalised candidates.
    pub penalties: Vec<Address>,
    /// Engine v1: for each masternode the index of its second signer.
    pub partners: Vec<u32>,
}

/// Data in the randomize contract.
#[derive(Clone, Debug, Default)]
pub(crate) struct Revealed {
    secrets: BTreeMap<Address, B256>,
    openings: BTreeMap<Address, B256>,
}

/// The facts of a block.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Height.
    pub number: u64,
    /// Hash.
    pub hash: B256,
    /// Hash of the parent.
    pub parent: B256,
    /// Unix time, seconds.
    pub timestamp: u64,
    /// Its maker; zero for block 0.
    pub author: Address,
    /// Its round; 0 up to the switch block.
    pub round: u64,
    /// Total difficulty.
    pub total_difficulty: u64,
    /// Its epoch.
    pub epoch: Arc<Epoch>,
    /// The voting contract after it.
    pub table: Arc<VotingTable>,
    pub(crate) revealed: Arc<Revealed>,
    /// Its signing transactions: signer and signed block.
    pub signings: Vec<(Address, B256)>,
}

/// A block to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The parent.
    pub parent: Arc<Facts>,
    /// Its maker.
    pub author: Address,
    /// Its round; 0 in v1.
    pub round: u64,
    /// Its difficulty.
    pub difficulty: u64,
    /// Unix time, seconds.
    pub timestamp: u64,
    /// Its epoch.
    pub epoch: Arc<Epoch>,
    /// Engine v2: the voters of the parent's certificate.
    pub voters: Vec<Address>,
}

impl Plan {
    /// Height of the block.
    pub fn number(&self) -> u64 {
        self.parent.number + 1
    }

    /// Returns whether it is the first of its epoch.
    pub fn opens_epoch(&self) -> bool {
        self.epoch.number == self.number()
    }
}

/// All blocks of all branches.
pub struct Model {
    /// The network.
    pub network: Arc<Network>,
    blocks: HashMap<B256, Arc<Facts>>,
}

impl Model {
    /// A chain of block 0 only.
    pub fn new(network: Arc<Network>) -> Self {
        let header = network.genesis.sealed_header().unwrap();
        let mut masternodes: Vec<Address> = network.first.iter().map(|(name, _, _)| *name).collect();
        masternodes.sort_unstable();
        let genesis = Facts {
            number: 0,
            hash: header.hash(),
            parent: B256::ZERO,
            timestamp: header.timestamp,
            author: Address::ZERO,
            round: 0,
            total_difficulty: 1,
            epoch: Arc::new(Epoch { masternodes, ..Epoch::default() }),
            table: Arc::new(VotingTable::of_genesis(&network)),
            revealed: Arc::default(),
            signings: Vec::new(),
        };
        Self { network, blocks: HashMap::from([(genesis.hash, Arc::new(genesis))]) }
    }

    /// The facts of a block.
    pub fn facts(&self, hash: B256) -> Option<Arc<Facts>> {
        self.blocks.get(&hash).cloned()
    }

    /// Blocks 0 to this one, indexed by height.
    pub fn chain(&self, tip: &Facts) -> Vec<Arc<Facts>> {
        let mut chain = vec![Arc::new(tip.clone())];
        while let Some(parent) = self.blocks.get(&chain[chain.len() - 1].parent) {
            chain.push(Arc::clone(parent));
        }
        chain.reverse();
        chain
    }

    /// Records a block made by a plan.
    pub fn record(&mut self, plan: &Plan, block: &RecoveredBlock) -> Arc<Facts> {
        let (number, parent) = (plan.number(), &plan.parent);
        let (mut table, mut revealed) = (VotingTable::clone(&parent.table), Revealed::clone(&parent.revealed));
        let mut signings = Vec::new();
        for (transaction, sender) in block.transactions.iter().zip(&block.senders) {
            match transaction.to {
                Some(VOTING) => drop(table.apply(*sender, transaction)),
                Some(RANDOMIZE) => revealed.apply(*sender, transaction, number % 900),
                Some(SIGNING) if transaction.input.len() == 68 && transaction.input.starts_with(&SIGN) => {
                    signings.push((*sender, B256::from_slice(&transaction.input[36..])));
                }
                _ => {}
            }
        }
        let facts = Arc::new(Facts {
            number,
            hash: block.hash(),
            parent: parent.hash,
            timestamp: plan.timestamp,
            author: plan.author,
            round: plan.round,
            total_difficulty: parent.total_difficulty + plan.difficulty,
            epoch: Arc::clone(&plan.epoch),
            table: Arc::new(table),
            revealed: Arc::new(revealed),
            signings,
        });
        self.blocks.insert(facts.hash, Arc::clone(&facts));
        facts
    }

    /// Returns whether a block of this round on this parent opens an epoch (`docs/spec/consensus.md` 2.1, 4.1).
    pub fn opens_epoch(&self, parent: &Facts, round: u64) -> bool {
        let (number, epoch) = (parent.number + 1, self.network.epoch);
        if number <= self.network.switch_block {
            return number.is_multiple_of(epoch);
        }
        parent.number == self.network.switch_block || parent.round < round / epoch * epoch
    }

    /// The epoch of a block of this round on this parent.
    pub fn epoch(&self, parent: &Facts, round: u64) -> Arc<Epoch> {
        if !self.opens_epoch(parent, round) {
            return Arc::clone(&parent.epoch);
        }
        let chain = self.chain(parent);
        Arc::new(if parent.number < self.network.switch_block {
            checkpoint(&chain)
        } else {
            self.switch(&chain, round)
        })
    }

    /// Engine v2 (`docs/spec/consensus.md` 4.2, 4.4, 4.5).
    fn switch(&self, chain: &[Arc<Facts>], round: u64) -> Epoch {
        let network = &self.network;
        let number = chain.len() as u64;
        let candidates = self.snapshot(chain, number);
        let mut penalties = Vec::new();
        if number > network.switch_block + 1 {
            let ended = &chain[chain.len() - 1].epoch;
            let made = |who: &Address| of(chain, ended.number + 1, number).any(|block| block.author == *who);
            penalties.extend(ended.masternodes.iter().filter(|who| !made(who)));
            if number > network.switch_block + network.epoch {
                let since = number.saturating_sub(RETURN_WINDOW).max(ended.number);
                for who in ended.penalties.iter().filter(|who| candidates.contains(who)) {
                    if !has_returned(chain, since, number, *who) && !penalties.contains(who) {
                        penalties.push(*who);
                    }
                }
            }
        }
        let max = network.rules(round).max_masternodes;
        let masternodes = candidates.into_iter().filter(|who| !penalties.contains(who)).take(max).collect();
        Epoch { number, masternodes, penalties, partners: Vec::new() }
    }

    /// The candidates from which a v2 block's epoch is drawn.
    fn snapshot(&self, chain: &[Arc<Facts>], number: u64) -> Vec<Address> {
        let gap = self.gap_number(number);
        if gap == self.gap_number(self.network.switch_block) {
            return at(chain, self.network.switch_block).epoch.masternodes.clone();
        }
        at(chain, gap).table.ranked()
    }

    /// The gap number of the epoch that begins with a block (`docs/spec/consensus.md` 3.4).
    pub fn gap_number(&self, epoch_switch: u64) -> u64 {
        (epoch_switch / self.network.epoch * self.network.epoch).saturating_sub(self.network.gap)
    }

    /// Number of signatures that a certificate of this round needs (`docs/spec/consensus.md` 3.5).
    #[allow(clippy::cast_precision_loss, reason = "the rule is defined with doubles")]
    pub fn quorum(&self, masternodes: usize, round: u64) -> usize {
        let threshold = self.network.rules(round).threshold;
        (0..=masternodes)
            .find(|count| *count as f64 >= masternodes as f64 * threshold)
            .unwrap_or_else(|| panic!("threshold {threshold} of round {round} is above 1"))
    }

    /// The maximum total difficulty of all branches.
    pub fn best(&self) -> u64 {
        self.blocks.values().map(|facts| facts.total_difficulty).max().expect("the model has the genesis block")
    }

    /// The rewards of a block, by receiver (`docs/spec/chain.md` 4.3).
    pub fn rewards(&self, plan: &Plan) -> BTreeMap<Address, U256> {
        let (number, epoch, network) = (plan.number(), self.network.epoch, &self.network);
        if !plan.opens_epoch() || number == epoch && number <= network.switch_block {
            return BTreeMap::new();
        }
        let chain = self.chain(&plan.parent);
        // Masternodes of the rewarded epoch, its blocks, and the first block whose signatures count.
        let (masternodes, rewarded, since) = if number <= network.switch_block {
            let list = &at(&chain, number - 2 * epoch).epoch.masternodes;
            (list, number - 2 * epoch + 1..number - epoch + 1, number - 2 * epoch + 1)
        } else if number == network.switch_block + 1 {
            return BTreeMap::new();
        } else {
            let is_switch = |block: &&Arc<Facts>| match block.number {
                v1 if v1 <= network.switch_block => v1.is_multiple_of(epoch),
                v2 => block.epoch.number == v2 && v2 != network.switch_block + 1,
            };
            let mut switches = chain.iter().rev().filter(is_switch);
            let (Some(first), Some(second)) = (switches.next(), switches.next()) else { return BTreeMap::new() };
            (&second.epoch.masternodes, second.number + 1..first.number, second.number + 1)
        };
        let mut counts = BTreeMap::new();
        for block in rewarded.filter(|block| block.is_multiple_of(SIGNED)) {
            let hash = at(&chain, block).hash;
            let signings = of(&chain, since, number).flat_map(|each| each.signings.clone());
            let signers: BTreeSet<Address> =
                signings.filter(|(_, signed)| *signed == hash).map(|(signer, _)| signer).collect();
            for signer in signers.into_iter().filter(|signer| masternodes.contains(signer)) {
                *counts.entry(signer).or_insert(0_u64) += 1;
            }
        }
        let total: u64 = counts.values().sum();
        let mut paid = BTreeMap::new();
        for (signer, count) in counts {
            let earned = coins(network.reward) / U256::from(total) * U256::from(count);
            let mut pay = |who: Address, percent: u64| {
                *paid.entry(who).or_insert(U256::ZERO) += earned * U256::from(percent) / U256::from(100);
            };
            let owner = plan.parent.table.owner(signer);
            if owner != network.foundation {
                pay(owner, 90);
            }
            pay(network.foundation, 10);
        }
        paid
    }

    /// The committed block with this block as the head (`docs/spec/consensus.md` 8.1).
    pub fn finalized(&self, head: &Facts) -> Option<u64> {
        let chain = self.chain(head);
        let round = |number: u64| at(&chain, number).round;
        (self.network.switch_block + 4..=head.number).rev().find_map(|number| {
            let rounds = [round(number - 3), round(number - 2), round(number - 1)];
            (rounds[0] + 1 == rounds[1] && rounds[1] + 1 == rounds[2]).then_some(number - 3)
        })
    }

    /// The second signer of a v1 block; none in the first epoch (`docs/spec/consensus.md` 2.5).
    pub fn second_signer(&self, plan: &Plan) -> Option<Address> {
        let number = plan.number();
        if number <= self.network.epoch {
            return None;
        }
        let Epoch { masternodes, partners, .. } = &*plan.epoch;
        let place = masternodes.iter().position(|who| *who == plan.author);
        let place = place.unwrap_or_else(|| panic!("the author of block {number}, {}, is no masternode", plan.author));
        let turned = number % 900 / masternodes.len() as u64;
        let partner = (u64::from(partners[place]) + turned) % masternodes.len() as u64;
        Some(masternodes[usize::try_from(partner).unwrap()])
    }
}

fn at(chain: &[Arc<Facts>], number: u64) -> &Facts {
    &chain[usize::try_from(number).unwrap()]
}

/// The blocks of these heights.
fn of(chain: &[Arc<Facts>], from: u64, below: u64) -> impl Iterator<Item = &Arc<Facts>> {
    chain.iter().filter(move |block| (from..below).contains(&block.number))
}

/// Returns whether `who` signed, in the blocks of these heights, an earlier one of them with a number that is a
/// multiple of 15.
fn has_returned(chain: &[Arc<Facts>], from: u64, below: u64, who: Address) -> bool {
    of(chain, from, below).any(|block| {
        let of_its_own = block.signings.iter().filter(|(signer, _)| *signer == who);
        of_its_own.into_iter().any(|(_, signed)| {
            of(chain, from, block.number)
                .any(|earlier| earlier.hash == *signed && earlier.number.is_multiple_of(SIGNED))
        })
    })
}

/// A checkpoint of engine v1 (`docs/spec/consensus.md` 2.6, 2.7, the rules from `tipRandomize` on).
fn checkpoint(chain: &[Arc<Facts>]) -> Epoch {
    let number = chain.len() as u64;
    let mut signers = at(chain, number - 450).table.ranked();
    signers.sort_unstable();
    let ended = &at(chain, number - 900).epoch.masternodes;
    let made = |who: &Address| of(chain, number - 899, number).any(|block| block.author == *who);
    let mut penalties: Vec<Address> = ended.iter().filter(|who| !made(who)).copied().collect();
    if number > 4_500 {
        let then = &at(chain, number - 4_500).epoch.penalties;
        let still = then.iter().filter(|who| signers.contains(who));
        penalties.extend(still.filter(|who| !has_returned(chain, number - RETURN_WINDOW, number, **who)));
    }
    let before = (1..=4).filter_map(|epochs| number.checked_sub(900 * epochs)).filter(|then| *then > 0);
    let out: Vec<Address> = before.flat_map(|then| at(chain, then).epoch.penalties.clone()).collect();
    let is_in = |who: &Address| !penalties.contains(who) && !out.contains(who);
    let masternodes: Vec<Address> = signers.into_iter().filter(is_in).collect();
    let revealed = &chain[chain.len() - 1].revealed;
    let numbers = masternodes.iter().map(|who| revealed.number(*who));
    let partners = draw_second_signers(numbers, u32::try_from(masternodes.len()).unwrap()).unwrap_or_default();
    Epoch { number, masternodes, penalties, partners }
}

impl Revealed {
    /// Secrets are accepted in the blocks 800 to 849 of an epoch, openings from 850 on (`docs/spec/chain.md` 10.3).
    fn apply(&mut self, sender: Address, transaction: &Transaction, place: u64) {
        let word = |index: usize| transaction.input.get(4 + 32 * index..36 + 32 * index).map(B256::from_slice);
        match transaction.input.first_chunk::<4>() {
            Some(&SET_SECRET) if (800..850).contains(&place) => drop(self.secrets.insert(sender, word(2).unwrap())),
            Some(&SET_OPENING) if place >= 850 => drop(self.openings.insert(sender, word(0).unwrap())),
            _ => {}
        }
    }

    /// The number to which an address has committed: 0 if it cannot be decrypted.
    fn number(&self, who: Address) -> i64 {
        let opening = self.openings.get(&who).copied().unwrap_or_default();
        let Some(secret) = self.secrets.get(&who) else { return 0 };
        let text: Vec<u8> = secret.iter().copied().skip_while(|byte| *byte == 0).collect();
        let sealed = URL_SAFE.decode(text).unwrap();
        let plain: Vec<u8> = sealed[16..].iter().zip(stream(&opening, &sealed[..16])).map(|(a, b)| a ^ b).collect();
        String::from_utf8(plain).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// A number encrypted as by a masternode: under a key and an initial vector.
pub(crate) fn secret(number: u64, opening: &B256, vector: &[u8; 16]) -> B256 {
    let text = number.to_string();
    let cipher = text.bytes().zip(stream(opening, vector)).map(|(a, b)| a ^ b);
    let sealed = URL_SAFE.encode(vector.iter().copied().chain(cipher).collect::<Vec<u8>>());
    B256::left_padding_from(sealed.as_bytes())
}

/// The first sixteen bytes of the key stream.
fn stream(opening: &B256, vector: &[u8]) -> [u8; 16] {
    let mut block = <[u8; 16]>::try_from(vector).unwrap().into();
    Aes256::new(&opening.0.into()).encrypt_block(&mut block);
    block.into()
}
