//! Makes the signing transactions of a masternode (`docs/spec/consensus.md` 10.1), without which an epoch pays nothing.

use std::sync::Arc;

use tenon_api::{
    Address, BlockSigner, RecoveredTransaction, SealedHeader, SignError, SignerMessage, StateReader, Transaction,
    TransactionPayload, TransactionSignature, U256,
};
use tenon_consensus_interface::{SealerTransactionError, SealerTransactionSource};

use crate::{BLOCK_SIGNERS, MERGE_SIGN_RANGE, signing::SELECTOR};

/// Gas limit of the transaction; it uses none.
const GAS: u64 = 200_000;

/// Builds the signing transactions of one masternode: one for every fifteenth block.
#[derive(Clone, derive_more::Debug)]
#[debug("SigningTransactionBuilder({})", signer.address())]
pub struct SigningTransactionBuilder {
    signer: Arc<dyn BlockSigner>,
    chain_id: u64,
}

impl SigningTransactionBuilder {
    /// Signs with the key of a masternode, for this chain.
    pub const fn new(signer: Arc<dyn BlockSigner>, chain_id: u64) -> Self {
        Self { signer, chain_id }
    }

    /// The signing transaction for a block, with this nonce of the masternode's account.
    ///
    /// # Errors
    /// [`SignError`].
    pub fn sign(&self, head: &SealedHeader, nonce: u64) -> Result<RecoveredTransaction, SignError> {
        let mut input = SELECTOR.to_vec();
        input.extend_from_slice(&U256::from(head.number).to_be_bytes::<32>());
        input.extend_from_slice(head.hash().as_slice());
        self.signed(nonce, BLOCK_SIGNERS, input)
    }

    fn signed(&self, nonce: u64, to: Address, input: Vec<u8>) -> Result<RecoveredTransaction, SignError> {
        let mut transaction = Transaction {
            hash: Default::default(),
            chain_id: Some(self.chain_id),
            nonce,
            gas_limit: GAS,
            to: Some(to),
            value: U256::ZERO,
            input: input.into(),
            payload: TransactionPayload::Legacy { gas_price: U256::ZERO },
            signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
        };
        let signature = self
            .signer
            .sign_message(SignerMessage::Transaction(&transaction), tenon_chain::signing_hash(&transaction))?;
        // EIP-155.
        let v = self.chain_id.saturating_mul(2).saturating_add(35 + u64::from(signature[64]));
        transaction.signature = TransactionSignature {
            v,
            r: U256::from_be_slice(&signature[..32]),
            s: U256::from_be_slice(&signature[32..64]),
        };
        transaction.hash = tenon_chain::transaction_hash(&transaction);
        Ok(RecoveredTransaction { transaction: transaction.into(), sender: self.signer.address() })
    }
}

impl SealerTransactionSource for SigningTransactionBuilder {
    /// The signing transaction for `head`; `None` if `head` is not a signed block.
    fn transaction(
        &self,
        head: &SealedHeader,
        state: &dyn StateReader,
    ) -> Result<Option<RecoveredTransaction>, SealerTransactionError> {
        if head.number == 0 || !head.number.is_multiple_of(MERGE_SIGN_RANGE) {
            return Ok(None);
        }
        let nonce = state.account(self.signer.address())?.unwrap_or_default().nonce;
        Ok(Some(self.sign(head, nonce)?))
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{Header, NativeSeal};

    use tenon_native_spec::PublicNetwork;

    use super::*;
    use crate::{is_signing_transaction, recorded_state::RecordedState, v2::MasternodeKey};

    fn builder() -> SigningTransactionBuilder {
        SigningTransactionBuilder::new(Arc::new(MasternodeKey::from_bytes([7; 32]).unwrap()), 5151)
    }

    fn head(number: u64) -> SealedHeader {
        tenon_chain::seal(Header { number, native_seal: Some(NativeSeal::default()), ..Header::default() })
    }

    #[test]
    fn signs_every_fifteenth_block_with_a_transaction_of_its_own() {
        let genesis = PublicNetwork::Devnet.genesis().unwrap();
        let state = RecordedState::of_genesis(&genesis);
        for number in [0, 1, 14, 16, 29] {
            assert!(builder().transaction(&head(number), &state).unwrap().is_none(), "{number}");
        }

        let head = head(30);
        let own = builder().transaction(&head, &state).unwrap().unwrap();

        assert!(is_signing_transaction(&own.transaction));
        assert_eq!(own.transaction.input[4..36], U256::from(30).to_be_bytes::<32>());
        assert_eq!(own.transaction.input[36..], head.hash()[..]);
        assert_eq!((own.transaction.nonce, own.sender), (0, builder().signer.address()));
        assert_eq!(tenon_chain::recover_sender(&own.transaction).unwrap(), own.sender);
        let encoded = tenon_chain::encode_transaction(&own.transaction);
        assert_eq!(tenon_chain::decode_transaction(&encoded).unwrap(), *own.transaction);
    }
}
