//! Refused percentiles of a history of fees, in the words of the reference and go-ethereum (`docs/spec/rpc-eth.md`
//! 11.2).

use tenon_api::messages::PercentileProblem;

use super::Refusal;
use crate::Failure;

impl Refusal for PercentileProblem {
    fn into_failure(self) -> Failure {
        Failure::server(percentile_problem_text(self))
    }
}

/// The text for refused percentiles.
pub fn percentile_problem_text(problem: PercentileProblem) -> String {
    let reason = match problem {
        PercentileProblem::TooMany { max } => format!("over the query limit {max}"),
        PercentileProblem::OutOfRange(percentile) => format!("{percentile:.6}"),
        PercentileProblem::NotAscending { index, percentile, previous } => {
            format!("#{}:{previous:.6} >= #{index}:{percentile:.6}", index.saturating_sub(1))
        }
    };
    format!("invalid reward percentile: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_percentiles_have_the_texts_of_the_reference() {
        let cases = [
            (PercentileProblem::TooMany { max: 100 }, "invalid reward percentile: over the query limit 100"),
            (PercentileProblem::OutOfRange(101.0), "invalid reward percentile: 101.000000"),
            (
                PercentileProblem::NotAscending { index: 1, percentile: 20.0, previous: 50.0 },
                "invalid reward percentile: #0:50.000000 >= #1:20.000000",
            ),
        ];
        for (problem, text) in cases {
            assert_eq!(problem.into_failure(), Failure::server(text));
        }
    }
}
