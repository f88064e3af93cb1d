//! A script's process, for the tests.

fn main() -> std::io::Result<()> {
    tenon_javascript::run_script_child()
}
