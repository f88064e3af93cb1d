//! The parts of a header that a walk over an epoch reads. A certificate of 108 signatures makes a header seven
//! kilobytes large, and an epoch switch walks over some 2,700 headers for rewards and penalties.

use tenon_api::{Address, B256, SealedHeader, U256};

use crate::ExtraFields;

/// A header reduced to its small parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderLink {
    /// The header's hash.
    pub(crate) hash: B256,
    /// Its height.
    pub(crate) number: u64,
    /// Its parent.
    pub(crate) parent_hash: B256,
    /// The producer.
    pub(crate) beneficiary: Address,
    /// Base fees of the block, wei.
    pub(crate) base_fees: U256,
    /// The extra data of a v2 header, without the signatures of its certificate.
    pub(crate) extra: Option<ExtraFields>,
}

impl HeaderLink {
    /// The link of a header.
    pub(crate) fn new(header: &SealedHeader) -> Self {
        let extra = ExtraFields::decode(&header.extra_data).ok().map(|mut extra| {
            extra.quorum.signatures = Vec::new();
            extra
        });
        Self {
            hash: header.hash(),
            number: header.number,
            parent_hash: header.parent_hash,
            beneficiary: header.beneficiary,
            base_fees: U256::from(header.base_fee_per_gas.unwrap_or_default()) * U256::from(header.gas_used),
            extra,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{recorded_chain::RecordedChain, v2::is_epoch_switch};

    /// Numbers of the epoch switches of a chain, by its headers or by their links.
    fn switches(chain: &RecordedChain, mut is_switch: impl FnMut(&SealedHeader) -> bool) -> Vec<u64> {
        let first = chain.settings().consensus.switch_block + 1;
        chain
            .blocks
            .iter()
            .filter(|block| block.header.number >= first && is_switch(&block.header))
            .map(|block| block.header.number)
            .collect()
    }

    #[test]
    fn links_tell_epoch_switches_as_headers_do_and_keep_no_signatures() {
        for chain in [RecordedChain::local(), RecordedChain::read("v1switch", "chain/native-genesis-v1switch.json.gz")]
        {
            let consensus = chain.settings().consensus;

            let by_header = switches(&chain, |header| is_epoch_switch(&consensus, header).unwrap());
            let by_link = switches(&chain, |header| {
                let link = HeaderLink::new(header);
                assert!(link.extra.as_ref().is_some_and(|extra| extra.quorum.signatures.is_empty()));
                assert_eq!(
                    (link.hash, link.number, link.parent_hash),
                    (header.hash(), header.number, header.parent_hash)
                );
                assert_eq!(link.beneficiary, header.beneficiary);
                link.is_epoch_switch(&consensus, &*chain).unwrap()
            });

            assert!(by_header.len() > 1, "{by_header:?}");
            assert_eq!(by_link, by_header);
        }
    }
}
