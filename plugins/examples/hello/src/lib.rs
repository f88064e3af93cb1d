//! The smallest plugin: one method, `hello_greet`.
#![deny(unsafe_code)]
use tenon_sdk::prelude::*;

struct Hello;
impl Plugin for Hello {
    fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self)
    }
}

async fn greet(_context: Context<Hello>, name: Option<String>) -> Result<String, Failure> {
    Ok(format!("hello {}", name.as_deref().unwrap_or("world")))
}
fn table() -> Table<Hello> {
    Table::new("hello", "1.0").read("hello_greet", &["name"], "Greets.", greet)
}
tenon_sdk::export!(Hello, table);
#[cfg(test)]
mod tests;
