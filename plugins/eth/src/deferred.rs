//! Parameters whose errors are reported later.

use tenon_sdk::{param::ParamDescription, prelude::*};

/// A parameter whose decoding error is reported only when the method reads the value. Some errors of earlier parameters
/// exist on one profile only, so the method finds them itself and must report them first. A method can also refuse the
/// parameter without reading its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deferred<T> {
    value: Result<T, ArgumentError>,
    was_given: bool,
}

impl<T> Deferred<T> {
    /// The value of argument number `position`.
    ///
    /// # Errors
    /// `-32602` if it is not a value of its type.
    pub(crate) fn at(self, position: usize) -> Result<T, Failure> {
        self.value.map_err(|error| Failure::invalid_argument(position, error))
    }

    /// Whether there was an argument, including `null`.
    pub(crate) const fn was_given(&self) -> bool {
        self.was_given
    }
}

impl<T: Param> Param for Deferred<T> {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        Ok(Self { value: T::decode(raw), was_given: true })
    }

    fn missing() -> Option<Self> {
        T::missing().map(|value| Self { value: Ok(value), was_given: false })
    }

    fn description() -> ParamDescription {
        T::description()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_reported_when_the_value_is_read() {
        let wrong = Deferred::<bool>::decode(RawArgument::new("3")).expect("never refused");
        let right = Deferred::<bool>::decode(RawArgument::new("true")).expect("never refused");

        assert!(wrong.was_given());
        let message = wrong.at(1).map_err(|failure| failure.message);
        assert_eq!(message, Err("invalid argument 1: json: cannot unmarshal number into Go value of type bool".into()));
        assert_eq!(right.at(1), Ok(true));
    }

    #[test]
    fn only_an_optional_value_may_be_omitted() {
        assert_eq!(Deferred::<bool>::missing(), None);
        assert_eq!(Deferred::<Option<bool>>::missing().map(|left_out| left_out.was_given()), Some(false));
    }
}
