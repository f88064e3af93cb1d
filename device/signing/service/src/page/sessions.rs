//! Logins and sessions of the page.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use alloy_primitives::hex;

/// How long a login is good.
const CODE_TIME: Duration = Duration::from_secs(120);
/// How long a session lasts.
const SESSION_TIME: Duration = Duration::from_secs(8 * 3_600);
/// Maximum number of logins that wait, and of sessions.
const MAX: usize = 64;

/// A person at the page.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) approver: String,
    /// Every form of the session has it.
    pub(super) form_token: String,
}

#[derive(Default)]
struct Held {
    codes: HashMap<String, (String, Instant)>,
    sessions: HashMap<String, (Session, Instant)>,
}

/// Logins that wait, and sessions, by unguessable keys.
#[derive(Default)]
pub(super) struct Sessions {
    /// Nothing awaits under the lock.
    held: Mutex<Held>,
}

/// 256 random bits in hexadecimal.
fn new_key() -> String {
    hex::encode(rand::random::<[u8; 32]>())
}

impl Sessions {
    fn held(&self) -> MutexGuard<'_, Held> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        held.codes.retain(|_, (_, until)| now < *until);
        held.sessions.retain(|_, (_, until)| now < *until);
        held
    }

    /// A new login for an approver. Beyond the bound the oldest goes.
    pub(super) fn new_code(&self, approver: &str) -> String {
        let code = new_key();
        let codes = &mut self.held().codes;
        make_room(codes);
        codes.insert(code.clone(), (approver.to_owned(), Instant::now() + CODE_TIME));
        code
    }

    /// Uses a login; the key of the new session.
    pub(super) fn log_in(&self, code: &str) -> Option<String> {
        let mut held = self.held();
        let (approver, _) = held.codes.remove(code)?;
        let key = new_key();
        make_room(&mut held.sessions);
        let session = Session { approver, form_token: new_key() };
        held.sessions.insert(key.clone(), (session, Instant::now() + SESSION_TIME));
        Some(key)
    }

    /// The session with this key.
    pub(super) fn get(&self, key: &str) -> Option<Session> {
        self.held().sessions.get(key).map(|(session, _)| session.clone())
    }

    /// Ends all sessions of an approver.
    pub(super) fn log_out(&self, approver: &str) {
        self.held().sessions.retain(|_, (session, _)| session.approver != approver);
    }
}

fn make_room<T>(entries: &mut HashMap<String, (T, Instant)>) {
    if entries.len() >= MAX
        && let Some(oldest) = entries.iter().min_by_key(|(_, (_, until))| *until).map(|(key, _)| key.clone())
    {
        entries.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_used_once_and_a_session_ends_with_its_person() {
        let sessions = Sessions::default();
        let code = sessions.new_code("alice");

        let key = sessions.log_in(&code).unwrap();

        assert_eq!(sessions.log_in(&code), None);
        assert_eq!(sessions.log_in(""), None);
        assert_eq!(sessions.get(&key).unwrap().approver, "alice");
        assert_eq!(sessions.get(&code).map(|session| session.approver), None);
        sessions.log_out("alice");
        assert!(sessions.get(&key).is_none());
    }

    #[test]
    fn many_logins_take_a_bounded_place() {
        let sessions = Sessions::default();
        let codes: Vec<_> = (0..100).map(|_| sessions.new_code("alice")).collect();

        assert_eq!(codes.iter().filter(|code| sessions.log_in(code).is_some()).count(), MAX);
        assert!(sessions.held().sessions.len() <= MAX);
    }
}
