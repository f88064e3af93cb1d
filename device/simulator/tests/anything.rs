//! A simulated device keeps responding after any input. `TENON_SEED` replays a run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

mod support;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use support::{Host, settings};
use tenon_device_simulator::{Model, SimulatorSettings};
use tenon_proto::common::Success;
use tenon_proto::management::{Cancel, Ping};
use tenon_proto::{decode, registry};

/// A deterministic random number generator (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

#[tokio::test]
async fn keeps_responding_after_any_input() {
    let seed = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("TENON_SEED={seed}");
    let mut numbers = Numbers(seed);
    let known: Vec<u16> = registry::entries().iter().chain(registry::later()).map(|entry| entry.id).collect();
    for model in Model::ALL {
        let mut host = Host::new(SimulatorSettings { has_passphrase_protection: true, ..settings(model) });
        for round in 0..400u32 {
            match numbers.next() % 3 {
                0 => {
                    let packet: [u8; 64] = numbers.bytes(64).try_into().unwrap();
                    host.send_packet(packet).await;
                }
                1 => {
                    let id = known[numbers.next() as usize % known.len()];
                    let length = numbers.next() as usize % 200;
                    let body = numbers.bytes(length);
                    host.send_raw(id, &body).await;
                }
                _ => {
                    let id = known[numbers.next() as usize % known.len()];
                    host.send_raw(id, b"").await;
                }
            }
            host.drain().await;
            if round % 20 == 19 {
                answers_ping(&mut host, round).await;
            }
        }
    }
}

/// Brings the device to a state in which it responds to a ping, like the session does.
async fn answers_ping(host: &mut Host, round: u32) {
    let text = format!("round {round}");
    // First completes a long message that was partly sent.
    for _ in 0..20 {
        host.send_packet([0; 64]).await;
    }
    for _ in 0..300 {
        host.send(&Cancel {}).await;
        host.send(&Ping { message: Some(text.clone()), ..Ping::default() }).await;
        while let Some(message) = host.poll().await {
            if decode::<Success>(message.id, &message.body).is_ok_and(|success| success.message() == text.as_bytes()) {
                return;
            }
        }
    }
    panic!("no answer in round {round}");
}
