//! Tests of the memory for messages that peers have sent.

use tokio::time::sleep;

use super::*;

const MIB: usize = 1 << 20;

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

/// Receives until the account has no room, or `max` bytes are unread. Returns the unread bytes.
fn fill(account: &ReceiveAccount, max: usize) -> usize {
    let mut unread = 0;
    while unread < max && account.has_room() {
        account.recount(unread, unread + 4096);
        unread += 4096;
    }
    unread
}

#[tokio::test(start_paused = true)]
async fn a_connection_waits_until_its_address_may_hold_more_or_it_is_chosen_and_others_keep_their_reserve() {
    let budget = ReceiveBudget::new(80, 10);
    let [greedy, second, third] = [1, 2, 3].map(|last| budget.account(address(last)));
    greedy.recount(0, 60);
    assert!(greedy.has_room(), "it is chosen");
    second.recount(0, 9);
    assert!(second.has_room());
    second.recount(9, 30);
    assert!(!second.has_room());
    third.recount(0, 10);
    let [mut second_room, mut third_room] = [&second, &third].map(|account| Box::pin(account.room()));
    let wait = Duration::from_millis(10);
    assert!(timeout(wait, &mut second_room).await.is_err() && timeout(wait, &mut third_room).await.is_err());

    greedy.recount(60, 50);

    // The message of the chosen connection is complete, so the oldest one that waits is chosen.
    assert!(timeout(wait, &mut third_room).await.is_err() && timeout(wait, &mut second_room).await.is_ok());
}

#[test]
fn one_address_leaves_room_for_others_however_many_connections_it_has() {
    let budget = ReceiveBudget::default();
    let flood: Vec<ReceiveAccount> = (0..50).map(|_| budget.account(address(1))).collect();
    for account in &flood {
        fill(account, 12 * MIB);
    }
    assert!(budget.held() <= 15 * MIB + 50 * (RESERVE_BYTES + 4096), "{}", budget.held());

    let honest = budget.account(address(2));

    assert!(fill(&honest, 12 * MIB) > 2 * MIB);
}

#[tokio::test(start_paused = true)]
async fn the_largest_connection_is_closed_if_the_pool_is_used_up() {
    let budget = ReceiveBudget::default();
    let [large, second, third] = [1, 2, 3].map(|last| budget.account(address(last)));
    assert!(fill(&large, 20 * MIB) >= 12 * MIB && !large.has_room());
    let begun = Instant::now();
    second.recount(0, 5 * MIB);
    third.recount(0, 5 * MIB);
    let closing = large.state();
    let closed = tokio::spawn(async move {
        closing.closed().await;
        drop((closing, large));
    });

    third.room().await;
    closed.await.unwrap();

    assert_eq!(begun.elapsed(), 3 * TURN_TIME);
    assert!(budget.held() == 10 * MIB && !second.0.must_close() && !third.0.must_close());
}

#[test]
fn the_longest_frame_fits_if_no_other_message_is_unfinished() {
    let budget = ReceiveBudget::default();
    let (account, _other) = (budget.account(address(1)), budget.account(address(1)));
    assert_eq!(fill(&account, 12 * MIB), 12 * MIB);
}

/// 25 connections receive 2 MiB each at the same speed, so that none completes before the pool is used up.
fn complete_all_of(address_of: impl Fn(u8) -> IpAddr) {
    let budget = ReceiveBudget::default();
    let accounts: Vec<ReceiveAccount> = (0..25).map(|number| budget.account(address_of(number))).collect();
    let mut unread: Vec<usize> = vec![0; 25];
    let mut completed = 0;
    for _ in 0..25 * 2 * MIB / 4096 {
        for (account, unread) in accounts.iter().zip(&mut unread) {
            if *unread < 2 * MIB && account.has_room() {
                account.recount(*unread, *unread + 4096);
                *unread += 4096;
                if *unread == 2 * MIB {
                    account.recount(2 * MIB, 0);
                    completed += 1;
                }
            }
        }
        assert!(budget.held() < COMMON_BYTES + 25 * RESERVE_BYTES, "{}", budget.held());
    }
    assert_eq!(completed, 25);
}

#[tokio::test(start_paused = true)]
async fn messages_that_wait_for_each_other_complete_one_after_another() {
    complete_all_of(address);
    complete_all_of(|_| address(1));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_addresses_that_send_all_they_can_stay_within_the_limit() {
    const READ: usize = 64 << 10;
    const { assert!(COMMON_BYTES + 100 * (RESERVE_BYTES + READ) + MAX_LARGE_MESSAGES * 10 * MIB <= 64 * MIB) };
    let budget = ReceiveBudget::default();
    let mut greedy: Vec<(ReceiveAccount, usize)> = (0..100).map(|last| (budget.account(address(last)), 0)).collect();
    let mut closed = 0;
    for _ in 0..1000 {
        tokio::time::advance(Duration::from_millis(100)).await;
        for (last, (account, unread)) in greedy.iter_mut().enumerate() {
            if account.0.must_close() {
                (*account, *unread) = (budget.account(address(u8::try_from(last).unwrap())), 0);
                closed += 1;
            } else if *unread < 12 * MIB && account.has_room() {
                account.recount(*unread, *unread + READ);
                *unread += READ;
            }
        }
        assert!(budget.held() <= COMMON_BYTES + 100 * (RESERVE_BYTES + READ), "{}", budget.held());
    }
    assert!(closed > 10, "{closed}");
}

/// 20 addresses hold all they can, and send no more than the minimum when they are chosen.
#[tokio::test(start_paused = true)]
async fn a_new_message_waits_for_one_turn_at_most_of_addresses_that_were_chosen_before() {
    let budget = ReceiveBudget::default();
    let slow: Vec<ReceiveAccount> = (1..=20).map(|last| budget.account(address(last))).collect();
    let mut unread: Vec<usize> = slow.iter().map(|account| fill(account, MIB / 2)).collect();
    for _ in 0..200 {
        tokio::time::advance(Duration::from_millis(500)).await;
        for (account, unread) in slow.iter().zip(&mut unread) {
            if account.has_room() {
                account.recount(*unread, *unread + 4096);
                *unread += 4096;
            }
        }
    }

    for _ in 0..5 {
        let (honest, begun) = (budget.account(address(99)), Instant::now());
        for unread in (0..2 * MIB).step_by(4096) {
            honest.room().await;
            honest.recount(unread, unread + 4096);
        }
        assert!(begun.elapsed() <= TURN_TIME, "{:?}", begun.elapsed());
    }
    assert!(slow.iter().all(|account| !account.0.must_close()), "slow is not too slow");
}

/// Sends messages of 2 MB, as slowly as a peer may while others wait, and connects again when it is closed.
async fn send_slowly(budget: ReceiveBudget, address: IpAddr) {
    const PART: usize = (64 << 10) / 20;
    loop {
        let account = budget.account(address);
        let state = account.state();
        let sending = async {
            let mut unread = 0;
            loop {
                account.room().await;
                let more = if unread >= 2_000_000 { 0 } else { unread + PART };
                account.recount(unread, more);
                unread = more;
                sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            () = sending => {}
            () = state.closed() => {}
        }
    }
}

/// The longest wait of an honest peer's messages of 420 kB beside a number of addresses that send slowly.
async fn wait_of_an_honest_message_beside(addresses: u8) -> Duration {
    let budget = ReceiveBudget::default();
    for last in 1..=addresses {
        tokio::spawn(send_slowly(budget.clone(), address(last)));
    }
    let mut wait = Duration::ZERO;
    for _ in 0..40 {
        sleep(Duration::from_secs(5)).await;
        let (honest, begun) = (budget.account(address(200)), Instant::now());
        for unread in (0..420_000).step_by(10_000) {
            honest.room().await;
            honest.recount(unread, unread + 10_000);
        }
        wait = wait.max(begun.elapsed());
    }
    wait
}

#[tokio::test(start_paused = true)]
async fn a_message_waits_for_one_turn_of_each_other_address_at_most() {
    for addresses in [25, 99] {
        let wait = wait_of_an_honest_message_beside(addresses).await;
        assert!(wait <= TURN_TIME * (u32::from(addresses) + 5), "{addresses} addresses: {wait:?}");
    }
}

#[tokio::test]
async fn messages_count_until_they_are_dropped_and_large_ones_wait_for_their_turn() {
    let budget = ReceiveBudget::new(100, 10);
    let account = budget.account(address(1));
    let mut large = Vec::new();
    for _ in 0..MAX_LARGE_MESSAGES {
        large.push(account.payload(vec![0; 40], account.turn(LARGE_BYTES).await));
    }
    assert_eq!(budget.held(), 80);
    assert!(account.turn(LARGE_BYTES - 1).await.is_none());
    let third = tokio::spawn(async move { account.turn(LARGE_BYTES).await.is_some() });
    tokio::task::yield_now().await;
    assert!(!third.is_finished());
    large.pop();
    assert!(third.await.unwrap());
    assert_eq!(budget.held(), 40);
    large.clear();
    assert_eq!(budget.held(), 0);
}
