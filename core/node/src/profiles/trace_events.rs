//! Spans in the trace-event format, which Perfetto and chrome://tracing open. It is not Go's trace format.

use serde::Serialize;
use tenon_bus::spans::SpanRecording;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TraceFile<'a> {
    trace_events: Vec<Event<'a>>,
    display_time_unit: &'static str,
    other_data: OtherData,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OtherData {
    /// Number of spans beyond the maximum, which were dropped.
    left_out: u64,
    /// Duration of the recording, microseconds.
    lasted: f64,
}

/// Times are microseconds.
#[derive(Serialize)]
#[serde(tag = "ph")]
enum Event<'a> {
    #[serde(rename = "X")]
    Complete { name: &'a str, cat: &'a str, ts: f64, dur: f64, pid: u32, tid: u64 },
    #[serde(rename = "M")]
    ThreadName { name: &'static str, pid: u32, tid: u64, args: ThreadName<'a> },
}

#[derive(Serialize)]
struct ThreadName<'a> {
    name: &'a str,
}

/// The file's content.
///
/// # Errors
/// None in practice: it is written to memory.
pub(super) fn encode(recording: &SpanRecording) -> serde_json::Result<Vec<u8>> {
    let pid = std::process::id();
    let microseconds = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let names = recording.threads.iter().map(|(tid, name)| {
        let (tid, args) = (*tid, ThreadName { name });
        Event::ThreadName { name: "thread_name", pid, tid, args }
    });
    let spans = recording.spans.iter().map(|span| Event::Complete {
        name: span.name,
        cat: span.category,
        ts: microseconds(span.began),
        dur: microseconds(span.lasted),
        pid,
        tid: span.thread,
    });
    let other_data = OtherData { left_out: recording.left_out, lasted: microseconds(recording.lasted) };
    let file = TraceFile { trace_events: names.chain(spans).collect(), display_time_unit: "ns", other_data };
    serde_json::to_vec(&file)
}
