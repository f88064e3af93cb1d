//! Errors of the pool.

use std::borrow::Cow;

use tenon_api::{
    BusError, StoreError,
    messages::{NativePoolRefusal, PoolRefusal},
};
use tenon_chain::DecodeError;

/// Why a transaction is not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// It is refused. Plugins write the text for clients.
    #[error("the pool refuses the transaction: {0}")]
    Refused(PoolRefusal),
    /// The chain could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PoolError {
    /// The error of bytes that are not a transaction.
    pub const fn undecodable(error: DecodeError) -> Self {
        let DecodeError { what, offset, problem } = error;
        Self::Refused(PoolRefusal::Undecodable { what: Cow::Borrowed(what), offset, problem })
    }

    /// The answer of a submission on the bus: a refusal is a reply.
    ///
    /// # Errors
    /// If the chain could not be read.
    pub fn reply<T>(outcome: Result<T, Self>) -> Result<Result<T, PoolRefusal>, BusError> {
        match outcome {
            Ok(accepted) => Ok(Ok(accepted)),
            Err(Self::Refused(refusal)) => Ok(Err(refusal)),
            Err(Self::Store(error)) => Err(error.into()),
        }
    }
}

impl From<PoolRefusal> for PoolError {
    fn from(refusal: PoolRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<NativePoolRefusal> for PoolError {
    fn from(refusal: NativePoolRefusal) -> Self {
        Self::Refused(PoolRefusal::Native(refusal))
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{Address, messages::SenderProblem};

    use super::*;

    #[test]
    fn a_refusal_is_a_reply_and_an_error_of_the_database_keeps_its_kind() {
        let refused = PoolError::reply::<()>(Err(PoolRefusal::Full.into()));
        let stopped = PoolError::reply::<()>(Err(StoreError::Stopped.into()));

        assert_eq!(refused, Ok(Err(PoolRefusal::Full)));
        assert_eq!(stopped, Err(BusError::TimedOut));
    }

    #[test]
    fn logs_show_a_refusal_in_plain_words() {
        let denied = PoolError::from(NativePoolRefusal::DeniedSender(Address::ZERO));
        let sender = PoolError::from(PoolRefusal::InvalidSender(SenderProblem::WrongChain { found: 1, wanted: 50 }));

        let zero = "0".repeat(40);
        let denied_text = format!("the pool refuses the transaction: its sender 0x{zero} is on the denylist");
        assert_eq!(denied.to_string(), denied_text);
        assert_eq!(
            sender.to_string(),
            "the pool refuses the transaction: it has no valid sender: it was signed for chain 1, and this is chain 50"
        );
    }
}
