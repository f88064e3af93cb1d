//! Tests of the queue with real threads and time.

use std::{sync::mpsc, task::Poll};

use super::*;
use crate::{CallContext, WorkPool};

fn queue(places: usize) -> FairQueue {
    FairQueue::new(FairLimits { places, client_places: places, queue: 16, client_queue: 16, parked: 4 })
}

fn share(client: u64) -> Share {
    Share { client: ClientId::from_number(client), plugin: None }
}

fn context(client: u64) -> CallContext {
    CallContext::new().with_origin(Origin::new(crate::Transport::Http, ClientId::from_number(client)))
}

#[tokio::test]
async fn places_are_released_when_owners_or_waiters_are_dropped() {
    let queue = queue(1);
    let held = queue.enter(share(1), None).await.unwrap();
    for _ in 0..3 {
        let waiting = tokio::time::timeout(Duration::ZERO, queue.enter(share(2), None));
        assert!(waiting.await.is_err());
    }
    assert_eq!(queue.counts(), (1, 0, 0));

    drop(held);

    assert_eq!(queue.counts(), (0, 0, 0));
    assert!(queue.enter(share(1), None).await.is_ok());
}

#[tokio::test]
async fn a_free_place_is_taken_at_once_unless_the_client_has_its_maximum_or_others_wait() {
    let limits = FairLimits { places: 2, client_places: 1, queue: 16, client_queue: 16, parked: 4 };
    let queue = FairQueue::new(limits);
    let first = queue.try_enter(share(1)).unwrap();
    assert!(queue.try_enter(share(1)).is_none(), "its maximum");
    let second = queue.try_enter(share(2)).unwrap();
    assert!(queue.try_enter(share(3)).is_none(), "no place is free");
    let mut waiting = std::pin::pin!(queue.enter(share(3), None));
    let is_waiting = std::future::poll_fn(|task| Poll::Ready(waiting.as_mut().poll(task).is_pending()));
    assert!(is_waiting.await);

    drop(second);

    assert!(queue.try_enter(share(2)).is_none(), "the place is that of the waiting job");
    let third = waiting.await.unwrap();
    assert_eq!(queue.counts(), (2, 0, 0));
    drop((first, third));
    assert!(queue.try_enter(share(2)).is_some());
}

#[tokio::test]
async fn a_wait_ends_at_its_deadline() {
    let queue = queue(1);
    let _held = queue.enter(share(1), None).await.unwrap();

    let late = queue.enter(share(1), Some(Instant::now() + Duration::from_millis(1))).await;

    assert_eq!(late.unwrap_err(), EnterError::DeadlinePassed);
    assert_eq!(queue.counts(), (1, 0, 0));
}

#[tokio::test]
async fn a_client_that_waits_gets_a_place_beside_a_job_that_never_pauses() {
    let queue = queue(1);
    let _held = queue.enter(share(1), None).await.unwrap();

    let extra = queue.enter(share(2), None).await;

    assert!(extra.is_ok());
    assert_eq!(queue.counts(), (2, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_job_yields_to_another_clients_job_and_continues() {
    let pool = WorkPool::new("test", 1, 16);
    let (began, has_begun) = mpsc::channel();
    let (stop, is_stopped) = mpsc::channel();
    let long = tokio::spawn({
        let pool = pool.clone();
        async move {
            let job = move |context: &CallContext| {
                began.send(()).unwrap();
                while is_stopped.try_recv().is_err() {
                    assert!(!context.should_stop());
                    std::hint::spin_loop();
                }
                Ok(context.parked())
            };
            pool.run(&context(1), job).await
        }
    });
    tokio::task::spawn_blocking(move || has_begun.recv()).await.unwrap().unwrap();

    let pool_seen_from_within = pool.clone();
    let counts = pool.run(&context(2), move |_| Ok(pool_seen_from_within.jobs())).await.unwrap();
    stop.send(()).unwrap();
    let parked = long.await.unwrap().unwrap();

    assert_eq!(counts, (1, 1, 0), "the long job was parked meanwhile");
    assert!(parked > Duration::ZERO);
    assert_eq!(pool.jobs(), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_job_whose_caller_leaves_ends() {
    let pool = WorkPool::new("test", 1, 16);
    let (ended, has_ended) = tokio::sync::oneshot::channel();
    let long = tokio::spawn({
        let pool = pool.clone();
        async move {
            let job = move |context: &CallContext| {
                while !context.should_stop() {
                    std::hint::spin_loop();
                }
                ended.send(()).unwrap();
                Ok(())
            };
            pool.run(&context(1), job).await
        }
    });
    while pool.jobs().0 == 0 {
        tokio::task::yield_now().await;
    }
    let (leave, may_leave) = mpsc::channel::<()>();
    let other = tokio::spawn({
        let pool = pool.clone();
        async move { pool.run(&context(2), move |_| Ok(may_leave.recv().is_ok())).await }
    });
    while pool.jobs().1 == 0 {
        tokio::task::yield_now().await;
    }

    long.abort();

    has_ended.await.unwrap();
    leave.send(()).unwrap();
    assert_eq!(other.await.unwrap(), Ok(true));
    while pool.jobs() != (0, 0, 0) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_message_has_a_budget_of_computing_time_for_all_its_jobs() {
    let pool = WorkPool::new("test", 2, 16);
    let endless = |context: CallContext| {
        let pool = pool.clone();
        async move {
            let job = |context: &CallContext| -> Result<(), tenon_api::BusError> {
                while !context.should_stop() {
                    std::hint::spin_loop();
                }
                Err(tenon_api::BusError::failed("stopped in the middle"))
            };
            pool.run(&context, job).await
        }
    };
    let message = context(1).within_computing_time(Duration::from_millis(1));
    let used_up = Err(tenon_api::BusError::OutOfTime);

    assert_eq!(endless(message.nested()).await, used_up, "stopped in the middle");
    assert_eq!(pool.run(&message.nested(), |_| Ok(())).await, used_up, "not begun");
    let another = context(1).within_computing_time(Duration::from_secs(3_600));
    assert_eq!(pool.run(&another, |_| Ok(())).await, Ok(()), "another message has its own");
}

#[tokio::test]
async fn a_client_beyond_its_allowance_of_attempts_is_queued_and_others_are_not() {
    let pool = WorkPool::new("test", 1, 16);
    let (greedy, modest) = (context(1), context(2));
    let long = || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(3) {
            std::hint::spin_loop();
        }
        Some("at once")
    };

    // The test does not know where windows begin: one of three attempts in a row meets a window that is used up.
    let answers = [(); 3].map(|()| pool.attempt(&greedy, long));

    assert!(answers.contains(&None), "{answers:?}");
    assert_eq!(pool.attempt(&modest, || Some("at once")), Some("at once"));
}

#[tokio::test]
async fn attempts_draw_on_the_computing_time_of_their_message() {
    let pool = WorkPool::new("test", 1, 16);
    let message = context(1).within_computing_time(Duration::from_nanos(1));
    let work = || {
        std::thread::sleep(Duration::from_micros(1));
        Some("at once")
    };

    assert_eq!(pool.attempt(&message, work), Some("at once"));
    assert_eq!(pool.attempt(&message, work), None);
}
