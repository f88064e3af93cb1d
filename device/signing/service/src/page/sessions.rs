//! Logins and sessions of the page.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use alloy_primitives::hex;
use parking_lot::{Mutex, MutexGuard};

/// Lifetime of a login code.
const CODE_TIME: Duration = Duration::from_secs(120);
/// Lifetime of a session.
const SESSION_TIME: Duration = Duration::from_secs(8 * 3_600);
/// Maximum number of unused login codes, and of sessions.
const MAX: usize = 64;

/// A logged-in approver.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) approver: String,
    /// Token that every form of the session must contain.
    pub(super) form_token: String,
    /// Random name of its folder. It is secret: browsers send the cookie only to this folder.
    folder: String,
}

/// Credentials of a new session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LoggedIn {
    /// Value of the session's cookie.
    pub(super) key: String,
    /// Name of the session's folder.
    pub(super) folder: String,
}

#[derive(Default)]
struct Held {
    codes: HashMap<String, (String, Instant)>,
    sessions: HashMap<String, (Session, Instant)>,
}

/// 128 random bits in hexadecimal.
fn new_folder() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

/// Unused login codes and sessions, by random keys.
#[derive(Default)]
pub(super) struct Sessions {
    /// Not held across an await.
    held: Mutex<Held>,
}

/// 256 random bits in hexadecimal.
fn new_key() -> String {
    hex::encode(rand::random::<[u8; 32]>())
}

impl Sessions {
    fn held(&self) -> MutexGuard<'_, Held> {
        let mut held = self.held.lock();
        let now = Instant::now();
        held.codes.retain(|_, (_, until)| now < *until);
        held.sessions.retain(|_, (_, until)| now < *until);
        held
    }

    /// Creates a login code for an approver. At the limit the oldest code is removed.
    pub(super) fn new_code(&self, approver: &str) -> String {
        let code = new_key();
        let codes = &mut self.held().codes;
        make_room(codes);
        codes.insert(code.clone(), (approver.to_owned(), Instant::now() + CODE_TIME));
        code
    }

    /// Exchanges a login code for a new session.
    pub(super) fn log_in(&self, code: &str) -> Option<LoggedIn> {
        let mut held = self.held();
        let (approver, _) = held.codes.remove(code)?;
        let (key, folder) = (new_key(), new_folder());
        make_room(&mut held.sessions);
        let session = Session { approver, form_token: new_key(), folder: folder.clone() };
        held.sessions.insert(key.clone(), (session, Instant::now() + SESSION_TIME));
        Some(LoggedIn { key, folder })
    }

    /// The session with this key, if `folder` is its folder.
    pub(super) fn get(&self, folder: &str, key: &str) -> Option<Session> {
        let held = self.held();
        let (session, _) = held.sessions.get(key)?;
        (session.folder == folder).then(|| session.clone())
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

        let LoggedIn { key, folder } = sessions.log_in(&code).unwrap();

        assert_eq!(sessions.log_in(&code), None);
        assert_eq!(sessions.log_in(""), None);
        assert_eq!(sessions.get(&folder, &key).unwrap().approver, "alice");
        assert!(sessions.get(&folder, &code).is_none());
        sessions.log_out("alice");
        assert!(sessions.get(&folder, &key).is_none());
    }

    #[test]
    fn a_key_counts_in_its_own_folder_only() {
        let sessions = Sessions::default();
        let [first, second] = [(); 2].map(|()| sessions.log_in(&sessions.new_code("alice")).unwrap());

        assert_eq!((first.folder.len(), first.key.len()), (32, 64));
        assert!(
            sessions.get(&first.folder, &first.key).is_some() && sessions.get(&second.folder, &second.key).is_some()
        );
        for folder in [second.folder.as_str(), "", &first.key] {
            assert!(sessions.get(folder, &first.key).is_none());
        }
    }

    #[test]
    fn the_number_of_sessions_is_bounded() {
        let sessions = Sessions::default();
        let codes: Vec<_> = (0..100).map(|_| sessions.new_code("alice")).collect();

        assert_eq!(codes.iter().filter(|code| sessions.log_in(code).is_some()).count(), MAX);
        assert!(sessions.held().sessions.len() <= MAX);
    }
}
