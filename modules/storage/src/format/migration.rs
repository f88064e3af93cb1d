//! Migration of a folder from an older release to this release's format.

use std::path::Path;

use crate::{
    OpenError,
    database::Database,
    format::meta::{self, Migration},
};

/// Refuses a newer format, and migrates an older one step by step: `steps[0]` leads from format 1 to 2, and so on. A
/// new folder gets the newest format at once. Returns the format that the folder had.
///
/// After each step the format is recorded and synced, so that a start after an interruption continues with the
/// unfinished step. A step must be a single batch or idempotent.
///
/// # Errors
/// [`OpenError::NewerFormat`], [`OpenError::Migration`].
pub(crate) fn migrate(path: &Path, database: &Database, steps: &[Migration]) -> Result<u32, OpenError> {
    let known = newest(steps);
    let Some(found) = meta::format(database)? else {
        let mut batch = database.batch();
        meta::set_format(&mut batch, known)?;
        meta::set_exact_checkpoints(&mut batch)?;
        batch.write(true)?;
        return Ok(known);
    };
    if found > known {
        return Err(OpenError::NewerFormat { path: path.to_path_buf(), found, known });
    }
    for (from, step) in (1..known).zip(steps).skip_while(|(from, _)| *from < found) {
        let to = from + 1;
        tracing::info!(path = %path.display(), from, to, "converting the database to a newer format");
        step(database).and_then(|()| record(database, to)).map_err(|source| OpenError::Migration {
            path: path.to_path_buf(),
            from,
            to,
            source,
        })?;
    }
    Ok(found)
}

/// The format after the last step.
fn newest(steps: &[Migration]) -> u32 {
    u32::try_from(steps.len()).unwrap_or(u32::MAX).saturating_add(1)
}

fn record(database: &Database, format: u32) -> Result<(), tenon_api::StoreError> {
    let mut batch = database.batch();
    meta::set_format(&mut batch, format)?;
    batch.write(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure fails the test")]

    use tenon_api::StoreError;

    use super::*;
    use crate::{
        StoreOptions,
        format::{columns::Column, meta::MIGRATIONS},
    };

    fn open(path: &Path) -> Database {
        Database::open(path, &StoreOptions { cache_bytes: 1 << 20, ..StoreOptions::for_tests() }).unwrap()
    }

    /// Appends a letter to a record, to show the order of steps.
    fn append(database: &Database, letter: u8) -> Result<(), StoreError> {
        let mut letters = database.get(Column::Meta, b"letters")?.map(|record| record.to_vec()).unwrap_or_default();
        letters.push(letter);
        let mut batch = database.batch();
        batch.put(Column::Meta, b"letters", letters)?;
        batch.write(false)
    }

    fn letters(database: &Database) -> String {
        String::from_utf8(database.get(Column::Meta, b"letters").unwrap().unwrap().to_vec()).unwrap()
    }

    const A: Migration = |database| append(database, b'a');
    const B: Migration = |database| append(database, b'b');
    const C: Migration = |database| append(database, b'c');
    const FAILS: Migration = |_| Err(StoreError::Engine("no space left".into()));

    #[test]
    fn a_new_folder_gets_the_newest_format_without_a_step() {
        let folder = tempfile::tempdir().unwrap();
        let database = open(folder.path());

        migrate(folder.path(), &database, &[A, B]).unwrap();

        assert_eq!(meta::format(&database).unwrap(), Some(3));
        assert!(database.get(Column::Meta, b"letters").unwrap().is_none());
    }

    #[test]
    fn an_older_folder_runs_every_step_from_its_own_format_on_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let database = open(folder.path());
        record(&database, 2).unwrap();

        migrate(folder.path(), &database, &[A, B, C]).unwrap();
        migrate(folder.path(), &database, &[A, B, C]).unwrap();

        assert_eq!((meta::format(&database).unwrap(), letters(&database)), (Some(4), "bc".to_owned()));
    }

    #[test]
    fn a_failed_step_is_named_and_the_next_start_repeats_it() {
        let folder = tempfile::tempdir().unwrap();
        let database = open(folder.path());
        record(&database, 1).unwrap();

        let failed = migrate(folder.path(), &database, &[A, FAILS, C]).unwrap_err();

        let path = folder.path().display();
        let wanted = format!(
            "database {path} could not be converted from format 2 to 3: database: no space left; \
             solve that and start again, nothing is lost"
        );
        assert_eq!(failed.to_string(), wanted);
        assert_eq!((meta::format(&database).unwrap(), letters(&database)), (Some(2), "a".to_owned()));
        drop(database);
        let database = open(folder.path());
        migrate(folder.path(), &database, &[A, B, C]).unwrap();
        assert_eq!((meta::format(&database).unwrap(), letters(&database)), (Some(4), "abc".to_owned()));
    }

    #[test]
    fn this_release_has_a_step_for_every_older_format() {
        assert_eq!(newest(&MIGRATIONS), meta::FORMAT);
    }
}
