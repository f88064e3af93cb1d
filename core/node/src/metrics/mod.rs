//! The module `metrics`: the endpoint as a part of the node that can be stopped.

mod source;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tenon_config::Settings;
use tenon_host::Router;
use tenon_metrics::MetricsServer;
use tenon_modules::{ActorControl, ActorModule, ActorReport, ActorStage, ActorSwitch, SwitchError};

use crate::endpoints::Announcer;

pub(crate) use source::NodeSource;

/// Time limit for a running scrape when the module is stopped.
const GRACE: Duration = Duration::from_secs(2);

/// The module. While stopped, it does not listen, and calls are counted but not timed.
pub(crate) fn module(settings: &Settings, source: NodeSource, endpoints: Arc<Announcer>) -> ActorModule {
    let address = SocketAddr::new(settings.metrics.addr, settings.metrics.port);
    let (router, announced) = (source.router.clone(), Arc::clone(&endpoints));
    let server = Arc::<Mutex<Option<MetricsServer>>>::default();
    let reported = Arc::clone(&server);
    let probe = move || ActorReport {
        address: announced.endpoints().metrics,
        connections: Some(reported.lock().as_ref().map_or(0, MetricsServer::open_connections)),
        ..ActorReport::default()
    };
    let switch = Metrics { address, source: Arc::new(source), router, endpoints, server };
    ActorModule {
        name: "metrics",
        summary: "Serves the metrics of the node to Prometheus.",
        uses: &["storage", "pool"],
        answers: &[],
        stage: ActorStage::AfterPlugins,
        is_wanted: settings.metrics.enabled,
        control: ActorControl::Switch(Box::new(switch)),
        probe: Some(Box::new(probe)),
    }
}

struct Metrics {
    address: SocketAddr,
    source: Arc<NodeSource>,
    router: Router,
    endpoints: Arc<Announcer>,
    /// The endpoint while it listens. Nothing awaits under the lock.
    server: Arc<Mutex<Option<MetricsServer>>>,
}

#[async_trait]
impl ActorSwitch for Metrics {
    async fn start(&self) -> Result<(), SwitchError> {
        let server = MetricsServer::start(self.address, Arc::clone(&self.source) as _).await.map_err(|error| {
            let address = self.address;
            SwitchError::new(format!(
                "cannot listen on {address}: {error}; choose another metrics.port, or 0 for a free one"
            ))
        })?;
        let address = server.address();
        *self.server.lock() = Some(server);
        self.router.time_calls(true);
        self.endpoints.change(|endpoints| endpoints.metrics = Some(format!("http://{address}/metrics")));
        Ok(())
    }

    async fn stop(&self) -> Result<(), SwitchError> {
        self.router.time_calls(false);
        self.endpoints.change(|endpoints| endpoints.metrics = None);
        let server = self.server.lock().take();
        if let Some(server) = server {
            server.stop(GRACE).await;
        }
        Ok(())
    }

    fn failure(&self) -> Option<String> {
        let has_ended = self.server.lock().as_mut().is_some_and(MetricsServer::has_ended);
        has_ended.then(|| "its endpoint failed; enable it again".to_owned())
    }
}
