//! The storage space of one plugin. Requests for it are answered here and never reach the bus, so that no plugin can
//! name another's space.

use std::sync::{Arc, Weak};

use serde::Serialize;
use tenon_api::{
    Capability, Failure, PluginSpaces, Request, SpaceError, SpaceLimits, Topic, codec,
    messages::{CommitRecords, GetRecords, GetSpaceUsage, ModuleInfo, PurgeSpace, ScanRecords, SpaceUsage},
};
use tenon_sdk::boundary::ExportedFuture;

use crate::{HostError, PluginHost};

/// The space of one plugin.
#[derive(Clone)]
pub(crate) struct Space {
    /// The name of its module, chosen by the operator: the name in the library's manifest is not used.
    name: Arc<str>,
    limits: SpaceLimits,
    /// Weak, because services of plugins stay as long as the process and must not keep the database open.
    spaces: Option<Weak<dyn PluginSpaces>>,
}

impl Space {
    pub(crate) fn new(name: &str, limits: SpaceLimits, spaces: Option<&Arc<dyn PluginSpaces>>) -> Self {
        Self { name: name.into(), limits, spaces: spaces.map(Arc::downgrade) }
    }

    /// Answers a request for the space; none if the topic is another one.
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

    fn spaces(&self) -> Result<Arc<dyn PluginSpaces>, Failure> {
        let spaces = self.spaces.as_ref().and_then(Weak::upgrade);
        spaces.ok_or_else(|| Failure::server("this node keeps no storage for plugins"))
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

impl PluginHost {
    /// Adds the storage use of modules that may store something, or have stored something. Reads the database.
    pub(crate) fn with_storage(&self, info: ModuleInfo, limits: Option<SpaceLimits>) -> ModuleInfo {
        let limits = limits.unwrap_or(self.options.space_limits);
        let usage = self.options.spaces.as_ref().and_then(|spaces| {
            let usage = spaces.usage(&info.name);
            usage.inspect_err(|error| tracing::warn!(module = info.name, %error, "what it stores is not known")).ok()
        });
        let may_store = info.granted.contains(&Capability::Storage);
        let shown = usage.filter(|(records, _)| may_store || *records > 0);
        ModuleInfo { storage: shown.map(|(records, bytes)| SpaceUsage::of(records, bytes, limits)), ..info }
    }

    /// Removes everything that a module has stored, and returns its former use. Blocks.
    ///
    /// # Errors
    /// [`HostError::WrongState`] while it is enabled, [`HostError::Space`] if there is no storage or it fails.
    pub fn purge_space(&self, request: &PurgeSpace) -> Result<SpaceUsage, HostError> {
        let name = request.module.as_str();
        let _operation = self.operation.try_lock().map_err(|_| HostError::Busy)?;
        if self.modules().by_name.get(name).is_some_and(|module| module.running().is_some()) {
            let problem = "is enabled; disable or unload it before its storage is removed".to_owned();
            return Err(HostError::WrongState { name: name.to_owned(), problem });
        }
        let failed = |failure| HostError::Space { name: name.to_owned(), failure };
        let space = Space::new(name, self.options.space_limits, self.options.spaces.as_ref());
        let purged = space.spaces().and_then(|spaces| spaces.purge(name).map_err(Failure::from)).map_err(failed)?;
        tracing::info!(module = name, records = purged.0, bytes = purged.1, "storage of a module removed");
        Ok(SpaceUsage::of(purged.0, purged.1, self.options.space_limits))
    }
}
