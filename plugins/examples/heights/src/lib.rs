//! The namespace `heights`: compares the head with a height, and follows it.

#![deny(unsafe_code)]

use tenon_sdk::prelude::*;

struct Heights;

impl Plugin for Heights {
    fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self)
    }
}

async fn above(context: Context<Heights>, height: Quantity) -> Result<bool, Failure> {
    let head = context.call(GetHead).await?;
    Ok(head.header.number > height.0)
}

async fn changes(context: Context<Heights>, sink: Sink) -> Result<(), Failure> {
    let mut events = context.events::<NewHead>(); // listen first,
    sink.accept().await; // then tell the client that it is subscribed
    while let Some(delivery) = events.next().await? {
        if let Delivery::Event(event) = delivery {
            sink.send(&Quantity(event.header.number)).await?;
        }
    }
    Ok(())
}

fn table() -> Table<Heights> {
    Table::new("heights", "1.0")
        .capabilities(&[Capability::ReadChain])
        .method("heights_above", &["height"], "Whether the head is above a height.", above)
        .subscription("changes", changes)
}

tenon_sdk::export!(Heights, table);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tenon_sdk::testing::FakeHost;

    use super::*;

    #[test]
    fn a_height_that_is_no_number_is_refused() {
        let refused = FakeHost::new().call(&table(), &Arc::new(Heights), "heights_above", "[\"high\"]");

        assert!(refused.is_err_and(|failure| failure.message.starts_with("invalid argument 0")));
    }

    #[test]
    fn the_nodes_own_words_reach_the_caller() {
        let host = FakeHost::new().answer(|_: GetHead| Err(Failure::server("no head")));

        let answer = host.call(&table(), &Arc::new(Heights), "heights_above", "[\"0x1\"]");

        assert_eq!(answer, Err(Failure::server("no head")));
    }
}
