//! Prints the modules of a node, then each new block:
//!
//! ```text
//! cargo run -p tenon-ipc-client --example watch -- data/tenon.ipc
//! ```

use tenon_ipc_client::{AdminClient as _, Client, Error, EthSubscriptions as _};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "data/tenon.ipc".into());
    let node = Client::connect(path).await?;
    for module in node.answer(node.list_modules()).await? {
        println!("{:<16} {}", module.name, module.state.name());
    }
    let mut heads = node.answer(node.new_heads()).await?;
    loop {
        let head = node.next_item(&mut heads).await?;
        println!("{:>8} {}", head.number, head.hash);
    }
}
