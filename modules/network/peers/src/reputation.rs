//! The reputation of peers. Faults add to a debt that decays over time; a high debt ends the connection, and a higher
//! one bans the node and its address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use tenon_network_identity::NodeId;

/// A fault of a peer. Behaviour that honest peers show as well (duplicates, lateness, unknown base messages, refusals,
/// a lost connection) is not a fault and has no variant here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A request was not answered.
    NoAnswer,
    /// An answer without items that the peer claimed to have.
    EmptyAnswer,
    /// A message that cannot be decoded, or a frame with a wrong MAC.
    Malformed,
    /// A header, body or skeleton that does not match the request.
    WrongAnswer,
    /// A header that does not verify, or a block of a synced chain whose execution fails.
    InvalidBlock,
    /// A large message that arrives too slowly while other peers wait for the memory that it holds.
    Stalled,
}

impl Fault {
    /// Its weight, in points.
    pub const fn points(self) -> f64 {
        match self {
            Self::NoAnswer | Self::EmptyAnswer => 10.0,
            Self::Stalled => 25.0,
            Self::Malformed | Self::WrongAnswer => 50.0,
            Self::InvalidBlock => 100.0,
        }
    }
}

/// The consequence of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// The connection remains.
    Kept,
    /// The connection is ended; the peer may reconnect.
    Cut,
    /// The connection is ended, and the node and its address are refused for this long.
    Banned(Duration),
}

/// Thresholds and times.
#[derive(Clone, Debug, PartialEq)]
pub struct ReputationSettings {
    /// Time in which a debt decays by half.
    pub half_life: Duration,
    /// Debt at which the connection is ended.
    pub disconnect_at: f64,
    /// Debt at which the node and its address are banned.
    pub ban_at: f64,
    /// Duration of the first ban; each further one lasts twice as long.
    pub first_ban: Duration,
    /// Maximum duration of a ban.
    pub max_ban: Duration,
    /// Half of the maximum number of records; nodes and addresses share the whole.
    pub max_remembered: usize,
}

impl Default for ReputationSettings {
    fn default() -> Self {
        Self {
            half_life: Duration::from_secs(10 * 60),
            disconnect_at: 50.0,
            ban_at: 100.0,
            first_ban: Duration::from_secs(10 * 60),
            max_ban: Duration::from_secs(24 * 3600),
            max_remembered: 4096,
        }
    }
}

/// The subject of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Subject {
    Node(NodeId),
    Address(IpAddr),
}

#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// Points at `as_of`.
    debt: f64,
    as_of: u64,
    banned_until: u64,
    /// Length of the last ban in seconds.
    last_ban: u64,
}

/// A ban, as stored across restarts. Times are Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBan {
    /// The banned node; `None` if an address is banned.
    pub node: Option<NodeId>,
    /// The banned address; `None` if a node is banned.
    pub address: Option<IpAddr>,
    /// The end of the ban.
    pub until: u64,
    /// Its whole duration in seconds. The next ban lasts twice as long.
    pub length: u64,
}

/// The reputation of all peers. Times are Unix seconds, because bans outlive the process.
#[derive(Debug)]
pub struct Reputation {
    settings: ReputationSettings,
    records: HashMap<Subject, Record>,
}

impl Reputation {
    /// Creates a reputation without debts, with the bans of an earlier run.
    pub fn new(settings: ReputationSettings, bans: &[StoredBan]) -> Self {
        let mut reputation = Self { settings, records: HashMap::new() };
        let longest = reputation.settings.max_ban.as_secs();
        for ban in bans.iter().take(2 * reputation.settings.max_remembered) {
            let length = ban.length.min(longest);
            let record = Record { debt: 0.0, as_of: 0, banned_until: ban.until, last_ban: length };
            let subjects = ban.node.map(Subject::Node).into_iter().chain(ban.address.map(address_subject));
            subjects.for_each(|subject| {
                reputation.records.insert(subject, record);
            });
        }
        reputation
    }

    /// Records a fault of a peer at an address. `is_protected` is true for static and trusted peers, which are not
    /// banned.
    pub fn report(&mut self, node: NodeId, ip: IpAddr, fault: Fault, is_protected: bool, now: u64) -> FaultOutcome {
        let of_node = self.add_debt(Subject::Node(node), fault.points(), now);
        // Several nodes can share an address. The address gets the same debt, but is banned only together with a node.
        let debt = of_node.max(self.add_debt(address_subject(ip), fault.points(), now));
        if debt >= self.settings.ban_at && !is_protected {
            let length = self.ban(Subject::Node(node), now).max(self.ban(address_subject(ip), now));
            return FaultOutcome::Banned(Duration::from_secs(length));
        }
        if of_node >= self.settings.disconnect_at { FaultOutcome::Cut } else { FaultOutcome::Kept }
    }

    /// Returns whether connections from and to a node or its address are banned. Do not call it for static and trusted
    /// peers: other nodes at their address must not lock them out.
    pub fn is_banned(&self, node: Option<&NodeId>, ip: IpAddr, now: u64) -> bool {
        let holds = |subject: Subject| self.records.get(&subject).is_some_and(|record| record.banned_until > now);
        node.is_some_and(|node| holds(Subject::Node(*node))) || holds(address_subject(ip))
    }

    /// A node's debt in points.
    pub fn debt(&self, node: &NodeId, now: u64) -> f64 {
        self.records.get(&Subject::Node(*node)).map_or(0.0, |record| self.decayed_debt(record, now))
    }

    /// The current bans, for the file.
    pub fn bans(&self, now: u64) -> Vec<StoredBan> {
        let stored = |(subject, record): (&Subject, &Record)| {
            let (node, address) = match subject {
                Subject::Node(node) => (Some(*node), None),
                Subject::Address(ip) => (None, Some(*ip)),
            };
            (record.banned_until > now).then_some(StoredBan {
                node,
                address,
                until: record.banned_until,
                length: record.last_ban,
            })
        };
        self.records.iter().filter_map(stored).collect()
    }

    fn decayed_debt(&self, record: &Record, now: u64) -> f64 {
        let seconds = now.saturating_sub(record.as_of) as f64;
        record.debt * (-seconds / self.settings.half_life.as_secs_f64()).exp2()
    }

    fn add_debt(&mut self, subject: Subject, points: f64, now: u64) -> f64 {
        let before = self.records.get(&subject).copied().unwrap_or_default();
        let debt = self.decayed_debt(&before, now) + points;
        if !self.records.contains_key(&subject) {
            self.make_room(now);
        }
        self.records.insert(subject, Record { debt, as_of: now, ..before });
        debt
    }

    fn ban(&mut self, subject: Subject, now: u64) -> u64 {
        let (first, longest) = (self.settings.first_ban.as_secs(), self.settings.max_ban.as_secs());
        let Some(record) = self.records.get_mut(&subject) else { return first };
        record.last_ban = record.last_ban.saturating_mul(2).clamp(first, longest);
        record.banned_until = now.saturating_add(record.last_ban);
        // A ban clears the debt.
        record.debt = 0.0;
        record.last_ban
    }

    /// If the table is full, removes half of the records: first those that were never banned or whose ban ended
    /// earliest, and among these the ones with the smallest debt.
    fn make_room(&mut self, now: u64) {
        if self.records.len() < 2 * self.settings.max_remembered {
            return;
        }
        let mut ranked: Vec<(u64, u64, Subject)> = self
            .records
            .iter()
            .map(|(subject, record)| (record.banned_until, (self.decayed_debt(record, now) * 1000.0) as u64, *subject))
            .collect();
        ranked.sort_unstable();
        for (_, _, subject) in &ranked[..ranked.len() / 2] {
            self.records.remove(subject);
        }
    }
}

/// The subject for an address. IPv6 addresses are grouped by /64, because a single machine has that many.
fn address_subject(ip: IpAddr) -> Subject {
    Subject::Address(match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) >> 64 << 64).into()),
        ip => ip,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: u64 = 60;

    fn id(number: u8) -> NodeId {
        NodeId([number; 64])
    }

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([1, 2, 3, last])
    }

    fn reputation() -> Reputation {
        Reputation::new(ReputationSettings::default(), &[])
    }

    #[test]
    fn debts_halve_in_ten_minutes() {
        let mut all = reputation();
        all.report(id(1), ip(1), Fault::NoAnswer, false, 1000);
        assert!((all.debt(&id(1), 1000 + 10 * MINUTE) - 5.0).abs() < 1e-9);
        assert!((all.debt(&id(1), 1000 + 30 * MINUTE) - 1.25).abs() < 1e-9);
    }

    #[test]
    fn small_faults_disconnect_first_and_ban_later_and_rare_ones_do_nothing() {
        let mut all = reputation();
        let outcomes: Vec<FaultOutcome> =
            (0..10).map(|_| all.report(id(1), ip(1), Fault::NoAnswer, false, 1000)).collect();
        assert_eq!(outcomes[3], FaultOutcome::Kept);
        assert_eq!(outcomes[4], FaultOutcome::Cut);
        assert_eq!(outcomes[9], FaultOutcome::Banned(Duration::from_secs(600)));

        for hour in 0..100 {
            assert_eq!(all.report(id(2), ip(2), Fault::NoAnswer, false, hour * 3600), FaultOutcome::Kept);
        }
    }

    #[test]
    fn bans_double_up_to_a_day_apply_to_node_and_address_and_end() {
        let mut all = reputation();
        let mut now = 1000;
        for minutes in [10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440] {
            let outcome = all.report(id(1), ip(1), Fault::InvalidBlock, false, now);
            assert_eq!(outcome, FaultOutcome::Banned(Duration::from_secs(minutes * MINUTE)));
            assert!(all.is_banned(Some(&id(1)), ip(9), now) && all.is_banned(None, ip(1), now));
            assert!(!all.is_banned(Some(&id(2)), ip(9), now));
            now += minutes * MINUTE;
            assert!(!all.is_banned(Some(&id(1)), ip(1), now));
        }
    }

    #[test]
    fn protected_peers_are_disconnected_and_not_banned() {
        let mut all = reputation();
        for _ in 0..5 {
            assert_eq!(all.report(id(1), ip(1), Fault::InvalidBlock, true, 1000), FaultOutcome::Cut);
        }
        assert!(!all.is_banned(Some(&id(1)), ip(1), 1000));
    }

    #[test]
    fn bans_survive_a_restart_and_continue_to_double() {
        let mut before = reputation();
        before.report(id(1), ip(1), Fault::InvalidBlock, false, 1000);
        let bans = before.bans(1000);
        assert_eq!(bans.len(), 2);

        let mut after = Reputation::new(ReputationSettings::default(), &bans);

        assert!(after.is_banned(Some(&id(1)), ip(9), 1001) && after.is_banned(None, ip(1), 1001));
        assert_eq!(
            after.report(id(1), ip(1), Fault::InvalidBlock, false, 2000),
            FaultOutcome::Banned(Duration::from_secs(1200))
        );
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        let mut all = reputation();
        all.report(id(1), "2001:4860::1".parse().unwrap(), Fault::InvalidBlock, false, 1000);
        assert!(all.is_banned(None, "2001:4860::ffff".parse().unwrap(), 1000));
        assert!(!all.is_banned(None, "2001:4860:0:1::1".parse().unwrap(), 1000));
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_bans_are_removed_last(reports in proptest::collection::vec((any::<u8>(), any::<u8>(), 0..3_u64), 0..200)) {
            let settings = ReputationSettings { max_remembered: 8, ..ReputationSettings::default() };
            let mut all = Reputation::new(settings, &[]);
            let mut now = 1000;
            all.report(id(1), ip(1), Fault::InvalidBlock, false, now);
            for (node, host, wait) in reports {
                now += wait;
                all.report(id(node), ip(host), Fault::NoAnswer, true, now);
                prop_assert!(all.records.len() <= 16 + 1);
                prop_assert!(all.is_banned(Some(&id(1)), ip(2), now));
            }
        }
    }
}
