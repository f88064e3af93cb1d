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
        .read("heights_above", &["height"], "Whether the head is above a height.", above)
        .subscription("changes", changes)
}

tenon_sdk::export!(Heights, table);

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use tenon_sdk::testing::{Chain, TestBlock};

    use super::*;

    #[test]
    fn the_head_is_compared_with_a_height() {
        let chain = Chain::new();
        chain.add(TestBlock::new());
        let heights = chain.start::<Heights>("{}").unwrap();

        assert_eq!(heights.call_method("heights_above", "[\"0x0\"]").unwrap(), "true");
        assert_eq!(heights.call_method("heights_above", "[\"0x1\"]").unwrap(), "false");
        let refused = heights.call_method("heights_above", "[\"high\"]").unwrap_err();
        assert!(refused.message.starts_with("invalid argument 0"), "{refused}");
    }

    #[test]
    fn a_subscription_follows_the_head_through_a_reorganisation() {
        let chain = Chain::new();
        let heights = chain.start::<Heights>("{}").unwrap();
        let mut changes = heights.subscribe("changes", "[]").unwrap();
        assert_eq!(changes.items(), [Ok(String::new())], "it is open");

        chain.add(TestBlock::new());
        chain.reorganise(0, vec![TestBlock::new(), TestBlock::new()]);

        let told: Vec<_> = changes.items().into_iter().map(Result::unwrap).collect();
        assert_eq!(told, ["\"0x1\"", "\"0x1\"", "\"0x2\""]);
    }

    #[test]
    fn the_nodes_own_error_reaches_the_caller() {
        let chain = Chain::new();
        let heights = chain.start::<Heights>("{}").unwrap();
        chain.fail::<GetHead>(Failure::server("no head"));

        assert_eq!(heights.call_method("heights_above", "[\"0x1\"]"), Err(Failure::server("no head")));
    }
}
