//! Runs any text as a script, for the fuzz targets (`fuzz/`) and the tests of this crate only.

use std::{cell::RefCell, os::unix::net::UnixStream, rc::Rc};

use crate::{
    engine::trace,
    interface::ScriptInterface,
    link::Link,
    protocol::{CallFacts, Event, Opening, Reply, Request, StepFacts},
};

/// Runs any text as a script over an empty run, within small limits.
///
/// # Panics
/// If a rule is broken: the process did not say how the trace ended, or a result is not one line.
pub fn script(input: &[u8]) {
    let Ok(source) = std::str::from_utf8(input) else { return };
    for interface in [ScriptInterface::ETHEREUM, ScriptInterface::REFERENCE] {
        let Ok((near, far)) = UnixStream::pair() else { return };
        // A result that does not fit into the socket ends the trace, because nothing reads the socket meanwhile.
        if far.set_nonblocking(true).is_err() {
            return;
        }
        let (mut node, link) = (Link::new(near), Rc::new(RefCell::new(Link::new(far))));
        // Everything that the node would send is sent in advance. Questions about accounts get no answer.
        let step = StepFacts { depth: 1, ..StepFacts::default() };
        let events = vec![Event::Call(CallFacts { depth: 1, ..CallFacts::default() }), Event::Step(step)];
        let sent = node.send(&Request::Events(events)).and_then(|()| node.send(&Request::Finish(Box::default())));
        if sent.is_err() {
            return;
        }
        let opening = Opening {
            source: source.to_owned(),
            config: "{}".to_owned(),
            interface,
            precompiles: Vec::new(),
            memory: 4 << 20,
            millis: 50,
            needs_sandbox: false,
        };
        // A question instead of a reply ends the trace.
        let has_ended = trace(&link, opening).is_err();
        drop(link);
        let mut last = None;
        while let Ok(reply) = node.receive::<Reply>() {
            last = Some(reply);
        }
        match last {
            Some(Reply::Result(json)) => assert!(!json.contains(&b'\n'), "a result is one line"),
            Some(Reply::Failed(_)) => {}
            other => assert!(has_ended, "the trace has no end: {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::script;

    #[test]
    fn returns_for_every_kind_of_script() {
        let long = "{fault: function() {}, result: function() { return 'x'.repeat(2000000); }}";
        let scripts = [
            "{fault: function() {}, result: function() { return 1; }}",
            "{step: function(log, db) { db.getBalance('0x01'); }, fault: function() {}, result: function() {}}",
            "{fault: function() {}, result: function(ctx, db) { return db.exists('0x01'); }}",
            "{fault: function() {}, result: function() { for (;;) {} }}",
            "(function f() { f(); })()",
            "{",
            "\u{0}",
            "",
            long,
        ];
        for source in scripts {
            script(source.as_bytes());
        }
        script(&[0xff, 0xfe]);
    }
}
