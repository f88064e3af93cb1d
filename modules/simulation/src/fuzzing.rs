//! Private parsers, for the fuzz targets (`fuzz/`) only.

/// Runs any text as a tracer written in JavaScript, for each profile.
///
/// # Panics
/// If the trace does not end.
pub fn script(input: &[u8]) {
    tenon_javascript::fuzzing::script(input);
}
