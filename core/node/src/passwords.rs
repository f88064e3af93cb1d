//! Sources of passwords: a file, an open descriptor, or the terminal. Never an argument, which other users of the
//! machine could read.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use tenon_api::SecretText;
use tenon_file_access::check_secret;
use zeroize::Zeroizing;

use crate::bounded_file;
use crate::exit::Stop;
use crate::log_output;

/// The terminal of this process, even if its standard streams are redirected.
const TERMINAL: &str = "/dev/tty";

/// Passwords, one after another.
pub(crate) enum Passwords {
    /// The lines of a file, one for each password; the last line serves for all further ones. If the file has no line,
    /// every password is empty.
    Lines {
        /// The remaining passwords, the next one last.
        left: Vec<SecretText>,
        /// The previous password.
        last: Option<SecretText>,
    },
    /// Entered at the terminal.
    Terminal {
        /// What to do where there is no terminal, such as "give --password FILE".
        otherwise: &'static str,
    },
}

impl Passwords {
    /// The lines of a file, which the setting or flag `name` names.
    ///
    /// # Errors
    /// [`Stop::Usage`] naming both.
    pub(crate) fn from_file(name: &str, path: &Path) -> Result<Self, Stop> {
        let text = bounded_file::secret_text(path)
            .map_err(|error| Stop::Usage(format!("{name}: {}: {error}", path.display())))?;
        warn_of_access(name, path);
        let mut left: Vec<_> = text.lines().map(SecretText::from).collect();
        left.reverse();
        Ok(Self::Lines { left, last: None })
    }

    /// The lines read from an open descriptor.
    ///
    /// # Errors
    /// [`Stop::Usage`] naming the descriptor.
    pub(crate) fn from_descriptor(number: u32) -> Result<Self, Stop> {
        Self::from_file("--password-fd", &PathBuf::from(format!("/dev/fd/{number}")))
    }

    /// The next password. At the terminal, `words` is the prompt.
    ///
    /// # Errors
    /// [`Stop::Usage`] if there is no terminal.
    pub(crate) fn next(&mut self, words: &str) -> Result<SecretText, Stop> {
        match self {
            Self::Lines { left, last } => {
                if let Some(next) = left.pop() {
                    *last = Some(next);
                }
                Ok(last.clone().unwrap_or_default())
            }
            Self::Terminal { otherwise } => ask(words, otherwise),
        }
    }

    /// The password to encrypt a new key with. At the terminal, where typing is hidden, it must be typed twice. An
    /// empty password is accepted with a warning, as by the reference. A file or descriptor without any line is an
    /// error.
    ///
    /// # Errors
    /// [`Stop::Usage`] if there is no terminal, the two differ, or the source has no line.
    pub(crate) fn next_new(&mut self, words: &str) -> Result<SecretText, Stop> {
        let password = self.next(words)?;
        if let Self::Lines { last: None, .. } = self {
            return Err(Stop::Usage(
                "the file or descriptor for the password is empty; nothing was changed. For a key without a password, \
                 give an empty line"
                    .into(),
            ));
        }
        if let Self::Terminal { otherwise } = self
            && ask("Repeat the password: ", otherwise)? != password
        {
            return Err(Stop::Usage("the two passwords differ; nothing was changed".into()));
        }
        if password.expose().is_empty() {
            log_output::eprint_line(
                "tenon: the new password is empty: everybody who can read the key file can use the key",
            );
        }
        Ok(password)
    }
}

/// Warns of a file that other users can read or change. Descriptors have no lasting content.
fn warn_of_access(name: &str, path: &Path) {
    let Ok(metadata) = std::fs::metadata(path) else { return };
    if let Some(access) = metadata.is_file().then(|| check_secret(&metadata).err()).flatten() {
        log_output::eprint_line(&format!("tenon: {name}: {}: {access}", path.display()));
    }
}

/// Asks at the terminal, without echoing the input.
fn ask(words: &str, otherwise: &str) -> Result<SecretText, Stop> {
    let no_terminal = |error: std::io::Error| {
        let question = words.trim_end_matches([':', ' ']);
        Stop::Usage(format!("there is no terminal for a prompt ({error}): {question}; {otherwise}"))
    };
    let mut terminal = OpenOptions::new().read(true).write(true).open(TERMINAL).map_err(no_terminal)?;
    terminal.write_all(words.as_bytes()).map_err(no_terminal)?;
    let line = {
        let _hidden = Hidden::new(&terminal).map_err(no_terminal)?;
        let mut line = Zeroizing::new(String::with_capacity(4096));
        BufReader::new(&terminal).read_line(&mut line).map_err(no_terminal)?;
        line
    };
    terminal.write_all(b"\n").map_err(no_terminal)?;
    Ok(SecretText::from(line.trim_end_matches(['\r', '\n'])))
}

/// A terminal without echo. Restores its modes on drop.
struct Hidden<'a> {
    terminal: &'a File,
    before: rustix::termios::Termios,
}

impl<'a> Hidden<'a> {
    fn new(terminal: &'a File) -> std::io::Result<Self> {
        let before = tcgetattr(terminal.as_fd())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(terminal.as_fd(), OptionalActions::Flush, &hidden)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        // The error cannot be handled better.
        let _ = tcsetattr(self.terminal.as_fd(), OptionalActions::Flush, &self.before);
    }
}

/// Restores the terminal's echo, for a program that ends while a thread still asks.
pub(crate) fn show_typing() {
    let Ok(terminal) = OpenOptions::new().read(true).write(true).open(TERMINAL) else { return };
    if let Ok(mut modes) = tcgetattr(terminal.as_fd()) {
        modes.local_modes.insert(LocalModes::ECHO);
        // The error cannot be handled better.
        let _ = tcsetattr(terminal.as_fd(), OptionalActions::Now, &modes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_file_is_used_for_all_further_passwords() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passwords");
        std::fs::write(&path, "one\r\n\ntwo words \n").unwrap();
        let mut passwords = Passwords::from_file("--password", &path).unwrap();

        let taken: Vec<_> = (0..4).map(|_| passwords.next("").unwrap().expose().to_owned()).collect();

        assert_eq!(taken, ["one", "", "two words ", "two words "]);
    }

    #[test]
    fn an_empty_file_gives_the_empty_password_but_encrypts_no_new_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passwords");
        std::fs::write(&path, "").unwrap();
        let passwords = || Passwords::from_file("--password", &path).unwrap();

        assert_eq!(passwords().next("").unwrap().expose(), "");
        assert!(matches!(passwords().next_new(""), Err(Stop::Usage(_))));
        std::fs::write(&path, "\n").unwrap();
        assert_eq!(passwords().next_new("").unwrap().expose(), "");
    }
}
