//! The storage space that the node keeps for a plugin.

use crate::Failure;
use alloy_primitives::Bytes;
use tenon_api::messages::{
    CommitOutcome, CommitRecords, GetRecords, GetSpaceUsage, RecordChange, RecordPage, ScanRecords, SpaceUsage,
};

use crate::Host;

/// The plugin's own records, which the node keeps in its database. They are ordered by the bytes of their keys, limited
/// in size, and survive a restart or a replacement of the plugin. Needs
/// [`Capability::Storage`](tenon_api::Capability::Storage).
///
/// The space belongs to the module, under the name that the operator gave it; no plugin can read another's. A read
/// takes a few microseconds. Other instances may commit between two reads.
///
/// ```
/// # use tenon_sdk::{prelude::*, testing::Chain};
/// # async fn visit(context: Context<()>) -> Result<u64, Failure> {
/// let storage = context.storage();
/// let visits = storage.get(b"visits").await?.map_or(0, |value| value[0]);
/// storage.put(b"visits", &[visits + 1]).await?;
/// # Ok(u64::from(visits + 1))
/// # }
/// # let chain = Chain::new();
/// # let context = chain.context(());
/// # assert_eq!(chain.run(visit(context.clone())), Ok(1));
/// # assert_eq!(chain.run(visit(context)), Ok(2));
/// ```
#[derive(Clone)]
pub struct Storage {
    host: Host,
}

impl Storage {
    pub(crate) const fn new(host: Host) -> Self {
        Self { host }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// If the plugin was not granted storage, or the database fails. The same applies to every function here.
    pub async fn get(&self, key: &(impl AsRef<[u8]> + ?Sized)) -> Result<Option<Bytes>, Failure> {
        let values = self.get_many([key]).await?;
        Ok(values.into_iter().next().flatten())
    }

    /// The values of several keys, in their order, with one request.
    ///
    /// # Errors
    /// As [`Storage::get`]; more than a thousand keys are refused.
    pub async fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Bytes>>, Failure> {
        let keys = keys.into_iter().map(|key| Bytes::copy_from_slice(key.as_ref())).collect();
        self.host.call(GetRecords { keys }).await
    }

    /// Records from the key `from` up to, not including, `to` (to the end if it is `None`), in ascending order: at most
    /// `limit`, at most ten thousand, at most 4 MiB. [`RecordPage::has_more`] says whether the range has more.
    ///
    /// # Errors
    /// As [`Storage::get`].
    pub async fn range(&self, from: &[u8], to: Option<&[u8]>, limit: u64) -> Result<RecordPage, Failure> {
        self.scan(from, to, limit, false).await
    }

    /// As [`Storage::range`], in descending order from the end.
    ///
    /// # Errors
    /// As [`Storage::get`].
    pub async fn range_descending(&self, from: &[u8], to: Option<&[u8]>, limit: u64) -> Result<RecordPage, Failure> {
        self.scan(from, to, limit, true).await
    }

    async fn scan(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        limit: u64,
        is_descending: bool,
    ) -> Result<RecordPage, Failure> {
        let (from, to) = (Bytes::copy_from_slice(from), to.map(Bytes::copy_from_slice));
        self.host.call(ScanRecords { from, to, is_descending, limit }).await
    }

    /// Writes one record.
    ///
    /// # Errors
    /// As [`Storage::commit`].
    pub async fn put(&self, key: &(impl AsRef<[u8]> + ?Sized), value: &[u8]) -> Result<(), Failure> {
        let mut batch = Batch::new();
        batch.put(key, value);
        self.commit(batch).await.map(drop)
    }

    /// Removes one record, if there is one.
    ///
    /// # Errors
    /// As [`Storage::get`].
    pub async fn delete(&self, key: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), Failure> {
        let mut batch = Batch::new();
        batch.delete(key);
        self.commit(batch).await.map(drop)
    }

    /// Makes all changes of a batch, or none. `is_applied` says whether its expectations held. A finished commit
    /// survives the death of the process. A started commit is finished even if its future is dropped.
    ///
    /// # Errors
    /// `-32005` with both sizes if the space would become too full, or if a key, value or batch is too large.
    pub async fn commit(&self, batch: Batch) -> Result<CommitOutcome, Failure> {
        self.host.call(batch.commit).await
    }

    /// The space's usage and its limits.
    ///
    /// # Errors
    /// As [`Storage::get`].
    pub async fn usage(&self) -> Result<SpaceUsage, Failure> {
        self.host.call(GetSpaceUsage).await
    }
}

/// Changes that are made together, in order, or not at all.
///
/// ```
/// # use tenon_sdk::{Batch, Node, testing::Chain};
/// # let chain = Chain::new();
/// # let storage = chain.host().storage();
/// let mut batch = Batch::new();
/// batch.expect(b"height", None); // another instance may have started
/// batch.put(b"height", b"1");
/// batch.put(b"sum", b"500");
/// batch.delete_range(b"old/", b"old0");
/// assert!(chain.run(storage.commit(batch.clone())).unwrap().is_applied);
/// assert!(!chain.run(storage.commit(batch)).unwrap().is_applied);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    commit: CommitRecords,
}

impl Batch {
    /// No changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a record: a key of at most 1 KiB, a value of at most 4 MiB.
    pub fn put(&mut self, key: &(impl AsRef<[u8]> + ?Sized), value: &[u8]) {
        let (key, value) = (Bytes::copy_from_slice(key.as_ref()), Bytes::copy_from_slice(value));
        self.commit.changes.push(RecordChange::Put { key, value });
    }

    /// Removes a record, if there is one.
    pub fn delete(&mut self, key: &(impl AsRef<[u8]> + ?Sized)) {
        self.commit.changes.push(RecordChange::Delete { key: Bytes::copy_from_slice(key.as_ref()) });
    }

    /// Removes all records from the key `from` up to, not including, `to`.
    pub fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        let (from, to) = (Bytes::copy_from_slice(from), Bytes::copy_from_slice(to));
        self.commit.changes.push(RecordChange::DeleteRange { from, to });
    }

    /// Makes the changes only if this key has this value, or does not exist if `value` is `None`. During a replacement,
    /// two builds of a plugin may both commit for a moment; expecting the value from which the batch was computed makes
    /// that safe.
    pub fn expect(&mut self, key: &(impl AsRef<[u8]> + ?Sized), value: Option<&[u8]>) {
        self.commit.expects.push((Bytes::copy_from_slice(key.as_ref()), value.map(Bytes::copy_from_slice)));
    }

    /// Number of its changes.
    pub fn len(&self) -> usize {
        self.commit.changes.len()
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.commit.changes.is_empty()
    }
}
