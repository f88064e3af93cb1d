//! Exposes the choices file to the fuzz targets (`fuzz/`) only.

use crate::{PluginPlan, choices::Choices};

/// Applies a choices file with this text to the settings' plans. Returns the plans and the text written back; `None` if
/// the text is refused.
pub fn choices(text: &[u8], configured: &[PluginPlan]) -> Option<(Vec<PluginPlan>, Vec<u8>)> {
    let choices = Choices::decode(text).ok()?;
    let (mut plans, added) = choices.apply(configured);
    plans.extend(added);
    Some((plans, choices.encode().ok()?))
}
