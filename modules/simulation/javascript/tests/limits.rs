//! Scripts that are invalid, or that exceed their limits.

#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use support::{OneAccount, events, host, host_with, options, result_of, result_within, run, start, waiting};
use tenon_javascript::{Script, ScriptError, ScriptInterface, ScriptOptions, ScriptSlot, Start, Waiting};

fn words(source: &str, interface: ScriptInterface) -> String {
    result_of(&host(), source, interface).unwrap_err().to_string()
}

#[test]
fn objects_without_their_functions_are_refused_in_the_clients_words() {
    let both = "trace object must expose either both or none of enter() and exit()";
    let cases = [
        ("{}", "result", "fault"),
        ("1", "result", "fault"),
        ("null", "result", "fault"),
        ("{result: function() {}}", "fault", "fault"),
        ("{fault: function() {}}", "result", "result"),
        ("{fault: function() {}, result: 5}", "result", "result"),
    ];
    for (source, ethereum, native) in cases {
        for (interface, missing) in [(ScriptInterface::ETHEREUM, ethereum), (ScriptInterface::REFERENCE, native)] {
            let expected = format!("trace object must expose a function {missing}()");
            assert_eq!(words(source, interface), expected, "{source}");
        }
    }
    assert_eq!(
        words("{fault: function() {}, result: function() {}, enter: function() {}}", ScriptInterface::ETHEREUM),
        both
    );
}

#[test]
fn errors_name_the_function_that_they_happened_in() {
    let script =
        |member: &str| format!("{{step: function() {{}}, fault: function() {{}}, result: function() {{}}, {member}}}");
    let cases = [
        ("step: function() { throw 'no'; }", "no    in server-side tracer function 'step'"),
        ("step: function() { throw new Error('no'); }", "Error: no    in server-side tracer function 'step'"),
        (
            "step: function() { this.a.b; }",
            "TypeError: cannot read property 'b' of undefined    in server-side tracer function 'step'",
        ),
        ("fault: function() { x; }", "ReferenceError: x is not defined    in server-side tracer function 'fault'"),
        ("enter: function() { throw 1; }, exit: function() {}", "1    in server-side tracer function 'enter'"),
        ("exit: function() { throw null; }, enter: function() {}", "null    in server-side tracer function 'exit'"),
        (
            "result: function() { var a = {}; a.a = a; return a; }",
            "TypeError: circular reference    in server-side tracer function 'result'",
        ),
        (
            "result: function() { toHex(5); }",
            "TypeError: invalid buffer type    in server-side tracer function 'result'",
        ),
        (
            "result: function() { throw {toString: function() { throw 1; }}; }",
            "a value without text was thrown    in server-side tracer function 'result'",
        ),
    ];
    for (member, expected) in cases {
        assert_eq!(words(&script(member), ScriptInterface::ETHEREUM), expected, "{member}");
    }
    assert!(words("{", ScriptInterface::REFERENCE).starts_with("SyntaxError: "));
    assert_eq!(words("noSuchTracer", ScriptInterface::REFERENCE), "ReferenceError: noSuchTracer is not defined");
}

#[test]
fn scripts_that_recurse_or_allocate_without_end_return_an_error_and_the_next_script_runs() {
    let (host, slot) = (host(), ScriptSlot::default());
    let cases = [
        ("(function f() { return f(); })()", "stack"),
        ("(function f() { var a = [f]; return a.map(f); })()", "stack"),
        (
            "(function() { var a = []; for (;;) a.push(new Uint8Array(1000000).fill(1)); })()",
            "more than 32 MiB of memory",
        ),
        ("(function() { var a = 'x'; for (;;) a += a + 'y'; })()", ""),
        ("'x'.repeat(1 << 30)", ""),
        ("new Array(1e9).fill(0)", ""),
    ];
    for (expression, expected) in cases {
        let source = format!("{{fault: function() {{}}, result: function() {{ {expression}; }}}}");
        let begin =
            Start { source: &source, config: "{}", interface: ScriptInterface::REFERENCE, precompiles: Vec::new() };
        let mut script = Script::start(&host, &slot, begin, waiting(Duration::from_secs(60))).unwrap();
        let refused = script.finish(run(), &mut OneAccount).unwrap_err();
        assert!(matches!(refused, ScriptError::Script(_)), "{expression}: {refused:?}");
        assert!(refused.to_string().contains(expected), "{expression}: {refused}");
        assert_eq!(host.running(), 1, "the same process runs the next script");
    }
}

#[test]
fn scripts_that_loop_end_at_their_deadline() {
    let host = host();
    let loops = [
        "{fault: function() {}, result: function() { for (;;) {} }}",
        "{step: function() { for (;;) {} }, fault: function() {}, result: function() {}}",
        "{fault: function() {}, result: function() { for (;;) { try { for (;;) {} } catch (e) {} } }}",
        "(function() { for (;;) {} })()",
        "{fault: function() {}, result: function() { return {toJSON: function() { for (;;) {} }}; }}",
        // Nothing interrupts the engine's own functions, so the node ends the process.
        "{fault: function() {}, result: function() { var a = (1n << 500000n) - 1n; for (var i = 0; i < 1000; i++) { a * a; } }}",
        "{fault: function() {}, result: function() { return /^(a+)+$/.test('a'.repeat(40) + 'b'); }}",
    ];
    for source in loops {
        let refused = result_within(&host, source, ScriptInterface::ETHEREUM, Duration::from_millis(100)).unwrap_err();
        assert_eq!(refused, ScriptError::TimedOut, "{source}");
    }
}

#[test]
fn a_caller_that_leaves_ends_its_script() {
    let host = host();
    let has_left = Arc::new(AtomicBool::new(false));
    let leaving = Arc::clone(&has_left);
    let deadline = Instant::now() + Duration::from_secs(3600);
    let waiting = Waiting { deadline, should_stop: Box::new(move || leaving.load(Ordering::Relaxed)) };
    let source = "{fault: function() {}, result: function() { for (;;) {} }}";
    let begin = Start { source, config: "{}", interface: ScriptInterface::REFERENCE, precompiles: Vec::new() };
    let mut script = Script::start(&host, &ScriptSlot::default(), begin, waiting).unwrap();
    has_left.store(true, Ordering::Relaxed);

    assert_eq!(script.finish(run(), &mut OneAccount), Err(ScriptError::CallerGone));
    assert_eq!(host.running(), 0);
}

#[test]
fn no_more_scripts_run_than_allowed_and_finished_ones_make_room() {
    let host = host_with(ScriptOptions { max: 2, ..options() });
    let source = "{fault: function() {}, result: function() { return 1; }}";
    let begin = || start(&host, source, ScriptInterface::REFERENCE, Duration::from_secs(60));
    let (first, second) = (begin().unwrap(), begin().unwrap());

    assert_eq!(begin().err(), Some(ScriptError::TooMany { max: 2 }));
    drop(first);
    let mut third = begin().unwrap();
    third.handle(events(), &mut OneAccount).unwrap();
    assert_eq!(third.finish(run(), &mut OneAccount).as_deref(), Ok("1"));
    drop((second, third));
    assert_eq!(host.running(), 0);
    let off = host_with(ScriptOptions { max: 0, ..options() });
    assert_eq!(
        start(&off, source, ScriptInterface::REFERENCE, Duration::from_secs(60)).err(),
        Some(ScriptError::SwitchedOff)
    );
}

#[test]
fn a_script_finds_no_state_of_an_earlier_one() {
    let (host, slot) = (host(), ScriptSlot::default());
    let run_one = |source: &str| {
        let begin = Start { source, config: "{}", interface: ScriptInterface::REFERENCE, precompiles: Vec::new() };
        let mut script = Script::start(&host, &slot, begin, waiting(Duration::from_secs(60))).unwrap();
        script.finish(run(), &mut OneAccount)
    };

    let left = run_one(
        "{fault: function() {}, result: function() { globalThis.left = 1; Array.prototype.x = 1; return left; }}",
    );
    assert_eq!(left.as_deref(), Ok("1"));
    let found = run_one("{fault: function() {}, result: function() { return [typeof left, typeof [].x]; }}");
    assert_eq!(found.as_deref(), Ok(r#"["undefined","undefined"]"#));
    assert_eq!(host.running(), 1);
}

#[test]
fn a_program_that_does_not_answer_is_an_error_of_the_process() {
    let program = tenon_javascript::Program::Child("/bin/true".into(), Vec::new());
    let host = tenon_javascript::ScriptHost::new(ScriptOptions { program, ..options() });

    let refused = start(&host, "{}", ScriptInterface::REFERENCE, Duration::from_secs(60)).err();

    assert!(matches!(refused, Some(ScriptError::Ended(_))), "{refused:?}");
    let program = tenon_javascript::Program::Child("/nowhere".into(), Vec::new());
    let host = tenon_javascript::ScriptHost::new(ScriptOptions { program, ..options() });
    let refused = start(&host, "{}", ScriptInterface::REFERENCE, Duration::from_secs(60)).err();
    assert!(matches!(refused, Some(ScriptError::Spawn(_))), "{refused:?}");
    assert_eq!(host.running(), 0);
}

#[test]
fn scripts_run_in_threads_where_there_are_no_processes() {
    let host = tenon_javascript::ScriptHost::new(ScriptOptions::in_threads(32 << 20, 4));

    let result = result_of(
        &host,
        "{fault: function() {}, result: function(ctx) { return ctx.block; }}",
        ScriptInterface::REFERENCE,
    );

    assert_eq!(result.as_deref(), Ok("5"));
}
