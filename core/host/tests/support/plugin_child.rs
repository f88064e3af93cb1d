//! A plugin's process, for the tests.

fn main() -> std::io::Result<()> {
    tenon_host::run_plugin_child()
}
