//! The fuzzer's entry over scripts that were worth a look: it returns for each.

#[test]
fn the_fuzzers_entry_returns_for_every_kind_of_script() {
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
    for script in scripts {
        tenon_javascript::fuzzing::script(script.as_bytes());
    }
    tenon_javascript::fuzzing::script(&[0xff, 0xfe]);
}
