//! The storage space of one plugin. Requests for it are answered here and never reach the bus, so that no plugin can
//! name another's space.

use std::sync::{Arc, Weak};

use serde::Serialize;
use tenon_api::{
    PluginSpaces, Request, SpaceError, SpaceLimits, Topic, codec,
    messages::{CommitRecords, GetRecords, GetSpaceUsage, ScanRecords, SpaceUsage},
};
use tenon_sdk::Failure;
use tenon_sdk::boundary::ExportedFuture;

/// The space of one plugin.
#[derive(Clone)]
pub struct Space {
    /// The name of its module, chosen by the operator: the name in the library's manifest is not used.
    name: Arc<str>,
    limits: SpaceLimits,
    /// Weak, because services of plugins stay as long as the process and must not keep the database open.
    spaces: Option<Weak<dyn PluginSpaces>>,
}

impl Space {
    /// The space of the module `name`. `spaces` is `None` if this node has no storage for plugins.
    pub fn new(name: &str, limits: SpaceLimits, spaces: Option<&Arc<dyn PluginSpaces>>) -> Self {
        Self { name: name.into(), limits, spaces: spaces.map(Arc::downgrade) }
    }

    /// Answers a request for the space; `None` if the topic is another one.
    pub(crate) fn answer(&self, topic: Topic, frame: &[u8]) -> Option<ExportedFuture> {
        let answer = match topic {
            GetRecords::TOPIC => self.read(frame, |spaces, request: GetRecords| spaces.get(&self.name, &request.keys)),
            ScanRecords::TOPIC => self.read(frame, |spaces, request: ScanRecords| spaces.scan(&self.name, &request)),
            GetSpaceUsage::TOPIC => self.read(frame, |spaces, _: GetSpaceUsage| {
                let (records, bytes) = spaces.usage(&self.name)?;
                Ok(SpaceUsage::of(records, bytes, self.limits))
            }),
            CommitRecords::TOPIC => return Some(self.commit(frame)),
            _ => return None,
        };
        Some(ExportedFuture::ready(answer))
    }

    /// The storage of all plugins.
    ///
    /// # Errors
    /// If this node has no storage for plugins.
    pub fn spaces(&self) -> Result<Arc<dyn PluginSpaces>, Failure> {
        let spaces = self.spaces.as_ref().and_then(Weak::upgrade);
        spaces.ok_or_else(|| Failure::server("this node has no storage for plugins"))
    }

    /// Answers immediately: a few point reads, or a page.
    fn read<R: Request, T: Serialize>(
        &self,
        frame: &[u8],
        answer: impl FnOnce(&dyn PluginSpaces, R) -> Result<T, SpaceError>,
    ) -> Result<Vec<u8>, Failure> {
        let request = codec::decode(frame).map_err(coding)?;
        codec::encode(&answer(&*self.spaces()?, request)?).map_err(coding)
    }

    /// Commits on a thread that may block. A commit that has begun completes even if the caller leaves.
    fn commit(&self, frame: &[u8]) -> ExportedFuture {
        let prepared = codec::decode::<CommitRecords>(frame).map_err(coding);
        let prepared = prepared.and_then(|commit| Ok((self.spaces()?, commit)));
        let (spaces, commit) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return ExportedFuture::ready(Err(failure)),
        };
        let (name, limits) = (Arc::clone(&self.name), self.limits);
        ExportedFuture::new(async move {
            let work = tokio::task::spawn_blocking(move || spaces.commit(&name, &commit, limits));
            let outcome = work.await.map_err(|error| Failure::server(format!("the commit did not end: {error}")))?;
            codec::encode(&outcome?).map_err(coding)
        })
    }
}

fn coding(error: codec::CodecError) -> Failure {
    Failure::server(error.to_string())
}
