//! Tests of the queue's decisions, with a clock that the test advances.

use super::*;

/// Waiting and parked jobs are named by strings.
type Words = State<&'static str, &'static str>;

fn limits(places: usize) -> FairLimits {
    FairLimits { places, client_places: places, queue: 8, client_queue: 8, parked: 4 }
}

fn client(number: u64) -> Share {
    Share { client: ClientId::from_number(number), plugin: None }
}

fn through(number: u64, plugin: &str) -> Share {
    Share { plugin: Some(PluginId::of_name(plugin)), ..client(number) }
}

/// A clock that the test advances.
struct Clock(Instant);

impl Clock {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn after(&mut self, millis: u64) -> Instant {
        self.0 += Duration::from_millis(millis);
        self.0
    }
}

fn arrive(state: &mut Words, share: Share, now: Instant, word: &'static str) -> (JobId, Arrival<&'static str>) {
    let job = state.new_job();
    (job, state.arrive(job, share, now, || word))
}

fn granted(state: &mut Words, now: Instant) -> Option<(JobId, &'static str)> {
    match state.grant_next(now)? {
        Granted::Begins(job, _, word) => Some((job, word)),
        Granted::Continues(word) => Some((0, word)),
    }
}

const WAITS: Arrival<&'static str> = Arrival::Waits { displaced: None };

#[test]
fn a_single_client_gets_every_place() {
    let (mut state, mut clock) = (Words::new(limits(3)), Clock::new());
    let now = clock.after(0);

    let arrivals = [(); 4].map(|()| arrive(&mut state, client(1), now, "job").1);

    assert_eq!(arrivals, [Arrival::Runs, Arrival::Runs, Arrival::Runs, WAITS]);
    assert!(!state.is_contended(), "a waiting job of the same client does not cause a yield");
}

#[test]
fn a_place_goes_to_the_client_with_least_used_time_not_to_the_first() {
    let (mut state, mut clock) = (Words::new(limits(1)), Clock::new());
    let (long, _) = arrive(&mut state, client(1), clock.after(0), "first");
    for word in ["flood 1", "flood 2", "flood 3"] {
        assert_eq!(arrive(&mut state, client(1), clock.after(0), word).1, WAITS);
    }
    arrive(&mut state, client(2), clock.after(100), "honest 1");
    arrive(&mut state, client(2), clock.after(0), "honest 2");

    let mut order = Vec::new();
    let mut running = long;
    for _ in 0..5 {
        state.end(running, clock.after(10));
        let (job, word) = granted(&mut state, clock.after(0)).unwrap();
        (running, _) = (job, order.push(word));
    }

    assert_eq!(order, ["honest 1", "flood 1", "honest 2", "flood 2", "flood 3"]);
}

#[test]
fn a_short_job_counts_less_than_a_long_one() {
    let (mut state, mut clock) = (Words::new(limits(1)), Clock::new());
    let (mut running, _) = arrive(&mut state, client(1), clock.after(0), "begins");
    for _ in 0..4 {
        arrive(&mut state, client(1), clock.after(0), "long");
        arrive(&mut state, client(2), clock.after(0), "short");
    }
    let mut order = Vec::new();
    let mut takes = 40;
    for _ in 0..6 {
        state.end(running, clock.after(takes));
        let (job, word) = granted(&mut state, clock.after(0)).unwrap();
        running = job;
        takes = if word == "long" { 40 } else { 10 };
        order.push(word);
    }

    assert_eq!(order, ["short", "short", "short", "short", "long", "long"]);
}

#[test]
fn the_plugins_of_a_client_share_its_time() {
    let (mut state, mut clock) = (Words::new(limits(1)), Clock::new());
    let (long, _) = arrive(&mut state, through(1, "eth"), clock.after(0), "eth 1");
    arrive(&mut state, through(1, "eth"), clock.after(0), "eth 2");
    arrive(&mut state, through(1, "debug"), clock.after(5), "debug");

    state.end(long, clock.after(10));

    assert_eq!(granted(&mut state, clock.after(0)).map(|(_, word)| word), Some("debug"));
}

#[test]
fn time_used_by_a_single_client_does_not_count_later() {
    let (mut state, mut clock) = (Words::new(limits(1)), Clock::new());
    let (alone, _) = arrive(&mut state, client(1), clock.after(0), "an hour");
    state.end(alone, clock.after(3_600_000));
    let (other, _) = arrive(&mut state, client(2), clock.after(0), "other");
    arrive(&mut state, client(2), clock.after(0), "other again");
    arrive(&mut state, client(1), clock.after(10), "returns");

    state.end(other, clock.after(1));

    assert_eq!(granted(&mut state, clock.after(0)).map(|(_, word)| word), Some("returns"));
}

#[test]
fn a_client_that_pauses_keeps_its_used_time() {
    let (mut state, mut clock) = (Words::new(limits(3)), Clock::new());
    let heavy = [(); 2].map(|()| arrive(&mut state, client(1), clock.after(0), "heavy").0);
    let (light, _) = arrive(&mut state, client(2), clock.after(0), "light");
    let now = clock.after(100);
    heavy.into_iter().for_each(|job| state.end(job, now));
    for _ in 0..2 {
        assert_eq!(arrive(&mut state, client(2), now, "light").1, Arrival::Runs);
    }
    arrive(&mut state, client(1), now, "heavy again");
    arrive(&mut state, client(2), now, "light again");

    // Client 2 has used 130 ms by then, client 1 200.
    state.end(light, clock.after(10));

    assert_eq!(granted(&mut state, clock.after(0)).map(|(_, word)| word), Some("light again"));
}

#[test]
fn a_full_queue_displaces_the_youngest_job_of_the_client_with_most_jobs() {
    let (mut state, mut clock) = (Words::new(FairLimits { queue: 3, ..limits(1) }), Clock::new());
    arrive(&mut state, client(1), clock.after(0), "runs");
    for word in ["flood 1", "flood 2", "flood 3"] {
        arrive(&mut state, client(1), clock.after(0), word);
    }

    let own = arrive(&mut state, client(1), clock.after(0), "flood 4").1;
    let newcomer = arrive(&mut state, client(2), clock.after(0), "honest 1").1;
    let equal = arrive(&mut state, client(2), clock.after(0), "honest 2").1;

    assert_eq!(own, Arrival::Refused(Refusal::QueueFull));
    assert_eq!(newcomer, Arrival::Waits { displaced: Some("flood 3") });
    assert_eq!(equal, Arrival::Refused(Refusal::QueueFull), "client 1 has no more jobs than client 2 would have");
    assert_eq!(state.counts(), (1, 0, 3));
}

#[test]
fn one_client_cannot_have_the_whole_queue() {
    let (mut state, mut clock) = (Words::new(FairLimits { client_queue: 2, ..limits(1) }), Clock::new());
    let arrivals = [(); 4].map(|()| arrive(&mut state, client(1), clock.after(0), "job").1);

    assert_eq!(arrivals, [Arrival::Runs, WAITS, WAITS, Arrival::Refused(Refusal::ClientFull)]);
}

#[test]
fn one_client_cannot_exceed_its_number_of_places() {
    let (mut state, mut clock) = (Words::new(FairLimits { client_places: 1, ..limits(2) }), Clock::new());
    let (first, _) = arrive(&mut state, client(1), clock.after(0), "own 1");

    assert_eq!(arrive(&mut state, client(1), clock.after(0), "own 2").1, WAITS);
    assert_eq!(arrive(&mut state, client(2), clock.after(0), "other").1, Arrival::Runs);
    assert_eq!(granted(&mut state, clock.after(0)), None);
    state.end(first, clock.after(1));
    assert_eq!(granted(&mut state, clock.after(0)).map(|(_, word)| word), Some("own 2"));
}

#[test]
fn a_job_ahead_of_a_waiting_client_gives_way_and_continues_on_its_turn() {
    let (mut state, mut clock) = (Words::new(limits(1)), Clock::new());
    let (long, _) = arrive(&mut state, client(1), clock.after(0), "long");
    arrive(&mut state, client(1), clock.after(0), "its next");
    arrive(&mut state, client(2), clock.after(0), "short");

    assert!(state.is_contended());
    assert!(!state.park(long, clock.after(4), || "too early"));
    assert!(state.park(long, clock.after(2), || "long goes on"));
    let (short, word) = granted(&mut state, clock.after(0)).unwrap();
    assert_eq!((word, state.counts()), ("short", (1, 1, 1)));
    state.end(short, clock.after(1));

    // A parked job continues before its client's waiting jobs begin.
    assert_eq!(granted(&mut state, clock.after(0)), Some((0, "long goes on")));
    assert_eq!(state.counts(), (1, 0, 1));
    assert!(!state.is_contended());
}

#[test]
fn the_number_of_parked_jobs_is_bounded() {
    let (mut state, mut clock) = (Words::new(FairLimits { parked: 1, ..limits(2) }), Clock::new());
    let (first, _) = arrive(&mut state, client(1), clock.after(0), "first");
    let (second, _) = arrive(&mut state, client(1), clock.after(0), "second");
    for _ in 0..2 {
        arrive(&mut state, client(2), clock.after(0), "short");
    }

    assert!(state.park(first, clock.after(20), || "parked"));
    assert!(!state.park(second, clock.after(0), || "runs on"));
    assert_eq!(state.counts(), (1, 1, 2));
}

#[test]
fn a_client_without_a_place_gets_an_extra_one_that_is_withdrawn_later() {
    let (mut state, mut clock) = (Words::new(limits(1)), Clock::new());
    let (stubborn, _) = arrive(&mut state, client(1), clock.after(0), "runs");
    arrive(&mut state, client(1), clock.after(0), "its next");
    arrive(&mut state, client(2), clock.after(0), "short");

    let own = state.grant_extra(ClientId::from_number(1), clock.after(40));
    let extra = state.grant_extra(ClientId::from_number(2), clock.after(0));

    assert!(own.is_none());
    assert!(matches!(extra, Some(Granted::Begins(_, _, "short"))));
    assert_eq!(state.counts(), (2, 0, 1));
    assert!(state.grant_extra(ClientId::from_number(3), clock.after(0)).is_none());
    assert!(state.is_contended());
    assert!(state.park(stubborn, clock.after(1), || "makes up for it"));
    assert_eq!(granted(&mut state, clock.after(0)), None, "the extra place is not granted again");
}

#[test]
fn jobs_that_leave_the_queue_get_no_place() {
    let (mut state, mut clock) = (Words::new(limits(1)), Clock::new());
    let (long, _) = arrive(&mut state, client(1), clock.after(0), "long");
    let (gone, _) = arrive(&mut state, client(2), clock.after(0), "gone");
    arrive(&mut state, client(3), clock.after(0), "short");
    assert!(state.park(long, clock.after(20), || "parked"));

    state.leave_queue(gone, client(2));
    assert!(state.leave_parking(long, client(1)));
    assert!(!state.leave_parking(long, client(1)));

    assert_eq!(granted(&mut state, clock.after(0)).map(|(_, word)| word), Some("short"));
    assert_eq!(granted(&mut state, clock.after(0)), None);
    assert_eq!(state.counts(), (1, 0, 0));
}

#[test]
fn clients_that_left_are_forgotten() {
    let (mut state, mut clock) = (Words::new(limits(1)), Clock::new());
    let (holder, _) = arrive(&mut state, client(0), clock.after(0), "holds");
    for number in 1..5_000 {
        let (job, _) = arrive(&mut state, client(number), clock.after(0), "comes");
        state.leave_queue(job, client(number));
    }
    assert!(state.clients.len() <= 2, "{}", state.clients.len());

    state.end(holder, clock.after(1));

    assert!(state.clients.values().all(|client| client.used.is_zero()), "no client has a lead");
}

#[test]
fn a_client_goes_first_unless_another_one_waits_that_has_used_less() {
    let (mut state, mut clock) = (Words::new(limits(1)), Clock::new());
    let now = clock.after(0);
    assert!(state.may_skip_queue(client(1).client, now), "nothing waits");
    let (running, _) = arrive(&mut state, client(1), now, "runs");
    arrive(&mut state, client(2), now, "waits");
    assert!(state.may_skip_queue(client(1).client, clock.after(0)));

    let now = clock.after(6);

    assert!(!state.may_skip_queue(client(1).client, now), "it is ahead by more than a quantum");
    assert!(state.may_skip_queue(client(2).client, now));
    assert!(state.may_skip_queue(client(3).client, now));
    state.charge(client(2).client, Duration::from_millis(6), now);
    assert!(state.may_skip_queue(client(1).client, now), "time that client 2 used without a place counts too");
    state.end(running, now);
}
