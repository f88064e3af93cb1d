//! The objects that a script sees.

#![allow(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod support;

use support::{host, result_of};
use tenon_javascript::ScriptInterface;

/// A script that collects the value of an expression at each step.
fn at_steps(expression: &str) -> String {
    format!(
        "{{seen: [], step: function(log, db) {{ this.seen.push({expression}); }}, fault: function() {{}}, result: function() {{ return this.seen; }}}}"
    )
}

/// A script whose result is an expression.
fn at_end(expression: &str) -> String {
    format!("{{fault: function() {{}}, result: function(ctx, db) {{ return {expression}; }}}}")
}

#[test]
fn steps_have_the_fields_that_go_ethereum_documents() {
    let host = host();
    let cases = [
        (
            "[log.getPC(), log.getGas(), log.getCost(), log.getDepth(), log.getRefund()]",
            "[[3,100,3,1,9],[3,100,3,2,9],[3,100,3,1,9]]",
        ),
        ("log.op.toString() + log.op.toNumber() + log.op.isPush()", r#"["PUSH196true","PUSH196true","PUSH196true"]"#),
        ("String(log.getError())", r#"["undefined","out of gas","undefined"]"#),
        ("log.stack.length()", "[2,0,2]"),
        ("log.stack.length() ? log.stack.peek(1).toString(16) : 0", r#"["1",0,"1"]"#),
        (
            "log.stack.length() ? log.stack.peek(0) : 0",
            r#"["115792089237316195423570985008687907853269984665640564039457584007913129639935",0,"115792089237316195423570985008687907853269984665640564039457584007913129639935"]"#,
        ),
        ("log.memory.length()", "[32,0,32]"),
        ("toHex(log.memory.slice(0, 0))", r#"["0x","0x","0x"]"#),
        ("log.getDepth() == 1 ? toHex(log.memory.slice(0, 3)) : ''", r#"["0x00ff00","","0x00ff00"]"#),
        ("log.getDepth() == 1 ? log.memory.getUint(0).equals(bigInt(255).shiftLeft(240)) : ''", r#"[true,"",true]"#),
        (
            "toHex(log.contract.getCaller()) + toHex(log.contract.getInput()) + log.contract.getValue()",
            r#"["0x00000000000000000000000000000000000000ca0x0102035","0x00000000000000000000000000000000000000ca0x0102035","0x00000000000000000000000000000000000000ca0x0102035"]"#,
        ),
        ("db.getBalance(log.contract.getAddress()).bitLength().toJSNumber()", "[312,312,312]"),
        (
            "[db.getNonce(log.contract.getAddress()), db.exists('0x01'), db.exists(log.contract.getAddress())]",
            "[[7,false,true],[7,false,true],[7,false,true]]",
        ),
        (
            "toHex(db.getCode('0xaa')) + toHex(db.getState('0xaa', '0x05')).length",
            r#"["0x600166","0x600166","0x600166"]"#,
        ),
    ];
    for (expression, expected) in cases {
        for interface in [ScriptInterface::ETHEREUM, ScriptInterface::REFERENCE] {
            assert_eq!(result_of(&host, &at_steps(expression), interface).as_deref(), Ok(expected), "{expression}");
        }
    }
}

#[test]
fn frames_faults_and_the_context_reach_their_functions() {
    let host = host();
    let source = "{log: [], \
        enter: function(f) { this.log.push([f.getType(), toHex(f.getFrom()), toHex(f.getTo()), toHex(f.getInput()), f.getGas(), f.getValue()]); }, \
        exit: function(r) { this.log.push([r.getGasUsed(), toHex(r.getOutput()), r.getError()]); }, \
        fault: function(log, db) { this.log.push(log.getError(), log.getPC()); }, \
        result: function(ctx) { return [this.log, ctx.type, ctx.value, ctx.gasPrice, ctx.gasUsed, ctx.block, ctx.txIndex, toHex(ctx.output), ctx.error, ctx.gas, ctx.intrinsicGas, toHex(ctx.txHash).length]; }}";

    let result = result_of(&host, source, ScriptInterface::ETHEREUM).unwrap();

    let expected = r#"[[["CALL","0x00000000000000000000000000000000000000aa","0x0000000000000000000000000000000000000002","0x09",50,"1273712981610478149659280835095566986385969831322046204434033424087044426039296"],[4,"0x","out of gas"],"invalid jump destination",3],"CALL","1273712981610478149659280835095566986385969831322046204434033424087044426039296","7",21000,5,2,"0x08",null,50,21000,66]"#;
    assert_eq!(result, expected);
}

// Addresses of contracts as EIP-1014 and the yellow paper give them.
#[test]
fn helpers_convert_as_go_ethereum_does() {
    let host = host();
    let cases = [
        ("toHex(toAddress('0x1234'))", r#""0x0000000000000000000000000000000000001234""#),
        ("toHex(toWord([1, 2]))", r#""0x0000000000000000000000000000000000000000000000000000000000000102""#),
        (
            "toHex(toContract('0x6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0', 1))",
            r#""0x343c43a37d37dff08ae8c4a11544c718abb4fcf8""#,
        ),
        (
            "toHex(toContract2('0xdeadbeef00000000000000000000000000000000', '0x0', '0x00'))",
            r#""0xb928f69bb1d91cd65274e3c79d8986362984fda3""#,
        ),
        ("[isPrecompiled('0x01'), isPrecompiled(toAddress('0x02'))]", "[true,false]"),
        ("toHex(slice(toWord('0x0102'), 30, 32))", r#""0x0102""#),
        ("bigInt('123456789012345678901234567890').add(1)", r#""123456789012345678901234567891""#),
        ("bigInt(7).pow(3).mod(5).toJSNumber()", "3"),
        ("[bigInt.zero.isZero(), bigInt('ff', 16).valueOf(), bigInt.one + bigInt(2)]", "[true,255,3]"),
        ("undefined", "null"),
        ("function() {}", "null"),
        ("{a: undefined, b: '<&>'}", r#"{"b":"\u003c\u0026\u003e"}"#),
        ("new Uint8Array([1, 2])", r#"{"0":1,"1":2}"#),
        (
            "[typeof require, typeof process, typeof fetch, typeof std, typeof os]",
            r#"["undefined","undefined","undefined","undefined","undefined"]"#,
        ),
    ];
    for (expression, expected) in cases {
        assert_eq!(
            result_of(&host, &at_end(expression), ScriptInterface::ETHEREUM).as_deref(),
            Ok(expected),
            "{expression}"
        );
    }
}

#[test]
fn reads_out_of_bounds_are_errors_in_go_ethereum_and_empty_in_the_reference() {
    let host = host();
    let cases = [
        ("log.stack.peek(9)", "tracer accessed out of bound stack: size 2, index 9", r#"["0","0","0"]"#),
        ("log.stack.peek(-1)", "tracer accessed out of bound stack: size 2, index -1", r#"["0","0","0"]"#),
        (
            "log.memory.getUint(1)",
            "tracer accessed out of bound memory: available 32, offset 1, size 32",
            r#"["0","0","0"]"#,
        ),
        (
            "toHex(log.memory.slice(-1, 3))",
            "tracer accessed out of bound memory: offset -1, end 3",
            r#"["0x","0x","0x"]"#,
        ),
        (
            "toHex(log.memory.slice(0, 2000000))",
            "reached limit for padding memory slice: 1999968",
            r#"["0x","0x","0x"]"#,
        ),
        (
            "toHex(slice(toWord('0x'), 30, 33))",
            "tracer accessed out of bound memory: available 32, offset 30, size 3",
            r#"["0x","0x","0x"]"#,
        ),
    ];
    for (expression, error, native) in cases {
        let refused = result_of(&host, &at_steps(expression), ScriptInterface::ETHEREUM).unwrap_err().to_string();
        assert_eq!(refused, format!("Error: {error}    in server-side tracer function 'step'"), "{expression}");
        assert_eq!(
            result_of(&host, &at_steps(expression), ScriptInterface::REFERENCE).as_deref(),
            Ok(native),
            "{expression}"
        );
    }
    let padded = result_of(&host, &at_steps("toHex(log.memory.slice(31, 34))"), ScriptInterface::ETHEREUM);
    assert_eq!(padded.as_deref(), Ok(r#"["0x000000","0x000000","0x000000"]"#));
}

#[test]
fn setup_gets_the_configuration_in_go_ethereum_only() {
    let host = host();
    let source = "{setup: function(config) { this.config = JSON.parse(config); }, fault: function() {}, result: function() { return this.config; }}";

    assert_eq!(result_of(&host, source, ScriptInterface::ETHEREUM).as_deref(), Ok(r#"{"a":1}"#));
    assert_eq!(result_of(&host, source, ScriptInterface::REFERENCE).as_deref(), Ok("null"));
}

#[test]
fn each_difference_is_set_independently_of_the_others() {
    let host = host();
    let reference = ScriptInterface::REFERENCE;
    let cases = [
        (ScriptInterface { bounds_stack: true, ..reference }, "log.stack.peek(9)"),
        (ScriptInterface { bounds_memory_words: true, ..reference }, "log.memory.getUint(1)"),
        (ScriptInterface { pads_memory_slices: true, ..reference }, "log.memory.slice(-1, 3)"),
        (ScriptInterface { bounds_slices: true, ..reference }, "slice(toWord('0x'), 30, 33)"),
    ];
    for (place, (interface, _)) in cases.into_iter().enumerate() {
        for (read, (_, expression)) in cases.into_iter().enumerate() {
            let is_refused = result_of(&host, &at_steps(expression), interface).is_err();
            assert_eq!(is_refused, place == read, "{expression}");
        }
    }
    let with_setup = ScriptInterface { calls_setup: true, ..reference };
    let result_first = ScriptInterface { checks_result_first: true, ..reference };
    let source = "{setup: function() { this.is_set = true; }, fault: function() {}, result: function() { return !!this.is_set; }}";
    for (interface, is_set, missing) in [(with_setup, "true", "fault"), (result_first, "false", "result")] {
        assert_eq!(result_of(&host, source, interface).as_deref(), Ok(is_set));
        let refused = result_of(&host, "{}", interface).unwrap_err().to_string();
        assert_eq!(refused, format!("trace object must expose a function {missing}()"));
    }
}
