//! Runs a node from its start to its end: what `tenon dev` and `tenon run` have in common.

use crate::exit::Stop;
use crate::new_folder::NewFolder;
use crate::node::{Node, NodePlan, max_stop_time};
use crate::shutdown::{self, StopSignals};
use crate::{service_manager, start_lines};

/// Starts a node, calls `show` when it serves, and stops it at the first signal, which also ends an unfinished start. A
/// new folder is kept unless the start fails.
///
/// # Errors
/// [`Stop`] if it can't start, or its database could not be flushed.
pub(super) fn run_node(
    plan: NodePlan,
    new_folder: Option<&mut NewFolder>,
    warnings: &[String],
    show: impl FnOnce(&Node),
) -> Result<(), Stop> {
    let ephemeral = plan.folder.is_ephemeral().then(|| plan.folder.path().to_owned());
    let mut signals = StopSignals::listen(max_stop_time(&plan.settings), ephemeral)?;
    let runtime = shutdown::runtime()?;
    let outcome = runtime.block_on(async {
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        start_lines::exposed_files(&plan.settings);
        let started = signals.unless_stopped(Node::start(plan)).await.transpose()?;
        if let Some(folder) = new_folder {
            folder.keep();
        }
        let Some(node) = started else {
            service_manager::stopping();
            tracing::info!("stopped while starting");
            return Ok(());
        };
        show(&node);
        node.notify_ready();
        signals.wait_for_the_first(async || node.reload().await).await;
        node.stop().await
    });
    shutdown::end_runtime(runtime);
    outcome
}
