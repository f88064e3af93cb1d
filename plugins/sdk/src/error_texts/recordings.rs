//! Refusals to start or stop a recording for a profile, in the words of the reference (`docs/spec/rpc-node.md` 4.5).

use tenon_api::{RecordingKind, RecordingRefusal};

/// The text for a recording that is not started or stopped.
pub(crate) fn recording_refusal_text(refusal: RecordingRefusal) -> String {
    match refusal {
        RecordingRefusal::Running(kind) => format!("{} already in progress", name_of(kind)),
        RecordingRefusal::NotRunning(kind) => format!("{} not in progress", name_of(kind)),
    }
}

const fn name_of(kind: RecordingKind) -> &'static str {
    match kind {
        RecordingKind::Cpu => "CPU profiling",
        RecordingKind::Spans => "trace",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_refused_with_the_texts_of_the_reference() {
        let cases = [
            (RecordingRefusal::Running(RecordingKind::Cpu), "CPU profiling already in progress"),
            (RecordingRefusal::NotRunning(RecordingKind::Cpu), "CPU profiling not in progress"),
            (RecordingRefusal::Running(RecordingKind::Spans), "trace already in progress"),
            (RecordingRefusal::NotRunning(RecordingKind::Spans), "trace not in progress"),
        ];
        for (refusal, text) in cases {
            assert_eq!(recording_refusal_text(refusal), text);
        }
    }
}
