//! The contracts that return prices of the historic exchange (`docs/spec/chain.md` 5.4).

use std::sync::Arc;

use alloy_primitives::{Address, Bytes};
use revm::{
    context_interface::context::ContextError,
    interpreter::{CallInputs, Gas, InstructionResult, InterpreterResult},
};
use tenon_api::{ChainReader, ConsensusEngine, SealedHeader, StoreError};
use tenon_native_spec::NativeSettings;

use super::{LAST_PRICE, finished};
use crate::Prices;
use tenon_execution_interface::{BlockContext, ContractRecords, StateError};

/// Gas of one query.
const GAS: u64 = 1;
/// Two words: the base token and the quote token.
const INPUT_LENGTH: usize = 64;
/// An answer has one word, or more if the price has more bits.
const WORD: usize = 32;

/// Runs the contract that returns the last price, or the one that returns the average price of the previous epoch. A
/// price that cannot be read ends the whole run: a made-up answer would become part of the state.
pub(super) fn run(
    contract: Address,
    context: &mut BlockContext,
    inputs: &CallInputs,
    prices: Option<&dyn ContractRecords>,
) -> InterpreterResult {
    if inputs.gas_limit < GAS {
        return finished(inputs.gas_limit, GAS, None);
    }
    let answer = match prices {
        Some(prices) => prices.answer(contract, &inputs.input.as_bytes(context)),
        None => answer(contract, &inputs.input.as_bytes(context), None),
    };
    match answer {
        Ok(price) => finished(inputs.gas_limit, GAS, Some(price)),
        Err(error) => {
            context.error = Err(ContextError::Db(StateError(error)));
            let gas = Gas::new(inputs.gas_limit);
            InterpreterResult::new(InstructionResult::FatalExternalError, Bytes::new(), gas)
        }
    }
}

/// Prices of the exchange, as records of the chain that contracts read.
pub struct PriceRecords(pub(crate) Prices);

impl PriceRecords {
    /// The prices for a call after `block`, in an EVM with height `number`; `None` while the exchange is inactive.
    pub fn of_call(
        settings: &NativeSettings,
        chain: &Arc<dyn ChainReader>,
        engine: &Arc<dyn ConsensusEngine>,
        block: &SealedHeader,
        number: u64,
    ) -> Option<Self> {
        Prices::of_call(settings, chain, engine, block, number).map(Self)
    }
}

impl ContractRecords for PriceRecords {
    fn answer(&self, contract: Address, input: &[u8]) -> Result<Bytes, StoreError> {
        answer(contract, input, Some(&self.0))
    }
}

/// The contract's answer; zero for any input that is not a pair of tokens.
fn answer(contract: Address, input: &[u8], prices: Option<&Prices>) -> Result<Bytes, StoreError> {
    let Some(prices) = prices.filter(|_| input.len() == INPUT_LENGTH) else {
        return Ok(Bytes::from_static(&[0; WORD]));
    };
    let (base, quote) = input.split_at(WORD);
    let token = |word: &[u8]| Address::from_slice(&word[WORD - Address::len_bytes()..]);
    let prices = prices.of_pair(token(base), token(quote))?;
    let price = if contract == LAST_PRICE { prices.last } else { prices.before_epoch };
    let digits = price.to_be_bytes_trimmed_vec();
    let mut padded = vec![0; WORD.saturating_sub(digits.len())];
    padded.extend_from_slice(&digits);
    Ok(padded.into())
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{B256, address};
    use tenon_api::EMPTY_ROOT_HASH;

    use super::{super::EPOCH_PRICE, *};
    use tenon_native_exchange::{BookPrices, Wide};

    const TOKEN: Address = Address::repeat_byte(0x70);
    /// Denotes the chain's own coin.
    const NATIVE: Address = address!("0000000000000000000000000000000000000001");

    fn prices() -> Prices {
        let book = |last: u64, before_epoch: u64| BookPrices {
            last: Wide::from(last),
            before_epoch: Wide::from(before_epoch),
        };
        Prices::of_books(&[(TOKEN, NATIVE, book(300, 200)), (NATIVE, TOKEN, book(7, 0))], EMPTY_ROOT_HASH)
    }

    fn pair(base: Address, quote: Address) -> Vec<u8> {
        [base.into_word(), quote.into_word()].concat()
    }

    fn number(price: u64) -> Bytes {
        B256::with_last_byte(0).into_iter().take(24).chain(price.to_be_bytes()).collect()
    }

    #[test]
    fn a_pair_has_its_last_price_and_that_of_the_previous_epoch() {
        let mut dirty = pair(TOKEN, NATIVE);
        (dirty[0], dirty[43]) = (9, 9);
        let cases = [
            (LAST_PRICE, pair(TOKEN, NATIVE), 300),
            (EPOCH_PRICE, pair(TOKEN, NATIVE), 200),
            (LAST_PRICE, pair(NATIVE, TOKEN), 7),
            (EPOCH_PRICE, pair(NATIVE, TOKEN), 0),
            (LAST_PRICE, dirty, 300),
            (LAST_PRICE, pair(TOKEN, TOKEN), 0),
            (EPOCH_PRICE, pair(Address::ZERO, NATIVE), 0),
        ];
        for (contract, input, price) in cases {
            assert_eq!(answer(contract, &input, Some(&prices())), Ok(number(price)), "{contract} {input:02x?}");
        }
    }

    #[test]
    fn invalid_pairs_and_a_missing_trading_state_are_answered_with_zero() {
        let pair = pair(TOKEN, NATIVE);
        for contract in [LAST_PRICE, EPOCH_PRICE] {
            for length in [0, 32, 63, 65, 128] {
                let mut input = pair.clone();
                input.resize(length, 0);
                assert_eq!(answer(contract, &input, Some(&prices())), Ok(number(0)), "{length} bytes");
            }
            assert_eq!(answer(contract, &pair, None), Ok(number(0)));
        }
    }

    #[test]
    fn a_price_longer_than_a_word_is_returned_whole() {
        let last = (Wide::from(5_u8) << 256) + Wide::from(1_u8);
        let prices =
            Prices::of_books(&[(TOKEN, NATIVE, BookPrices { last, ..BookPrices::default() })], EMPTY_ROOT_HASH);
        let expected: Vec<u8> = [5].into_iter().chain([0; 31]).chain([1]).collect();
        assert_eq!(answer(LAST_PRICE, &pair(TOKEN, NATIVE), Some(&prices)), Ok(expected.into()));
    }

    #[test]
    fn an_unavailable_trading_state_is_an_error() {
        let root = B256::repeat_byte(7);
        let prices = Prices::of_books(&[], root);
        let found = answer(EPOCH_PRICE, &pair(TOKEN, NATIVE), Some(&prices));
        assert!(
            matches!(&found, Err(StoreError::Corrupt { what }) if what.contains("does not have the trie node")),
            "{found:?}"
        );
    }
}
