//! Records the finalized and the safe block, and makes everything durable.

use std::sync::Arc;

use tenon_api::{BlockNumber, Head, StoreError};

use crate::{format::meta, store::Store};

impl Store {
    /// Records the finalized and the safe block.
    pub(crate) fn write_finality(
        &self,
        finalized: Option<BlockNumber>,
        safe: Option<BlockNumber>,
    ) -> Result<(), StoreError> {
        let _writer = self.writer.lock();
        let head = self.shared.head.load_full();
        if head.finalized == finalized && head.safe == safe {
            return Ok(());
        }
        let head = Head { finalized, safe, ..(*head).clone() };
        let mut batch = self.shared.database.batch();
        meta::set_head(&mut batch, &head)?;
        batch.write(false)?;
        self.shared.head.store(Arc::new(head));
        Ok(())
    }

    /// Makes everything that was written durable (flush and fsync). Changes nothing, so it needs no writer.
    ///
    /// # Errors
    /// [`StoreError::Engine`].
    pub fn flush(&self) -> Result<(), StoreError> {
        let mut writer = self.writer.lock();
        self.shared.database.sync()?;
        self.shared.database.flush()?;
        writer.count_blocks(1, true);
        Ok(())
    }
}
