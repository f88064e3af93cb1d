//! Encodes and decodes manifests on the wire.

use tenon_api::Capability;

use tenon_host::{Cost, Manifest, Method, NamespaceRequirement};

use crate::wire::{Fields, WireError, put_bytes};

/// Maximum number of methods, and of subscriptions, of a plugin.
const MAX_ENTRIES: u32 = 4096;

/// Why a manifest from the wire was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("it lists more than {MAX_ENTRIES} methods or subscriptions")]
    TooMany,
    #[error("it requests the capability {0}, which this node does not know")]
    Capability(String),
    #[error("{0}")]
    Malformed(String),
}

pub(crate) fn put_manifest(out: &mut Vec<u8>, manifest: &Manifest) {
    let Manifest { name, namespace, version, built_with, needs, .. } = manifest;
    let needs = needs.iter().map(NamespaceRequirement::to_string).collect::<Vec<_>>().join(",");
    for text in [name, namespace, version, built_with, &needs] {
        put_bytes(out, text.as_bytes());
    }
    let Manifest {
        capabilities,
        methods,
        subscriptions,
        sends_frames,
        has_lasting_subscriptions,
        has_item_positions,
        has_background,
        ..
    } = manifest;
    let flags = [*sends_frames, *has_lasting_subscriptions, *has_item_positions, *has_background];
    out.extend_from_slice(&flags.map(u8::from));
    put_count(out, capabilities.len());
    for capability in capabilities {
        put_bytes(out, capability.name().as_bytes());
    }
    put_count(out, methods.len());
    for Method { name, cost, only_reads, is_ahead, takes_secrets, description } in methods {
        put_bytes(out, name.as_bytes());
        out.extend_from_slice(&[*cost == Cost::Slow, *only_reads, *is_ahead, *takes_secrets].map(u8::from));
        put_bytes(out, description.as_bytes());
    }
    put_count(out, subscriptions.len());
    for kind in subscriptions {
        put_bytes(out, kind.as_bytes());
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

/// Reads a manifest and checks it like one from a library in this process.
pub(crate) fn read_manifest(fields: &mut Fields<'_>) -> Result<Manifest, ManifestError> {
    let mut text = || fields.text().map(str::to_owned);
    let (name, namespace, version, built_with, needs) = (text()?, text()?, text()?, text()?, text()?);
    let needs = NamespaceRequirement::parse_list(&needs).map_err(ManifestError::Malformed)?;
    let mut flag = || Ok::<_, WireError>(fields.u8()? != 0);
    let (sends_frames, has_lasting_subscriptions) = (flag()?, flag()?);
    let (has_item_positions, has_background) = (flag()?, flag()?);
    let capabilities = (0..count(fields)?)
        .map(|_| {
            let name = fields.text()?;
            Capability::from_name(name).ok_or_else(|| ManifestError::Capability(name.to_owned()))
        })
        .collect::<Result<_, _>>()?;
    let methods = (0..count(fields)?)
        .map(|_| {
            let name = fields.text()?.to_owned();
            let cost = if fields.u8()? == 0 { Cost::Fast } else { Cost::Slow };
            let (only_reads, is_ahead) = (fields.u8()? != 0, fields.u8()? != 0);
            let takes_secrets = fields.u8()? != 0;
            Ok(Method { name, cost, only_reads, is_ahead, takes_secrets, description: fields.text()?.to_owned() })
        })
        .collect::<Result<_, ManifestError>>()?;
    let subscriptions =
        (0..count(fields)?).map(|_| Ok(fields.text()?.to_owned())).collect::<Result<_, ManifestError>>()?;
    let manifest = Manifest {
        name,
        namespace,
        version,
        built_with,
        capabilities,
        needs,
        has_lasting_subscriptions,
        has_item_positions,
        has_background,
        methods,
        subscriptions,
        sends_frames,
    };
    manifest.check().map_err(ManifestError::Malformed)?;
    Ok(manifest)
}

fn count(fields: &mut Fields<'_>) -> Result<u32, ManifestError> {
    let count = fields.u32()?;
    if count > MAX_ENTRIES {
        return Err(ManifestError::TooMany);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FrameBuffer, Kind, put_frame};

    fn manifest() -> Manifest {
        Manifest {
            name: "good".into(),
            namespace: "good".into(),
            version: "1.0".into(),
            built_with: "rustc".into(),
            capabilities: vec![Capability::ReadChain, Capability::Sign],
            needs: NamespaceRequirement::parse_list("eth >= 1, net").unwrap(),
            has_lasting_subscriptions: true,
            has_item_positions: true,
            has_background: true,
            methods: vec![
                Method {
                    name: "good_one".into(),
                    cost: Cost::Fast,
                    only_reads: true,
                    is_ahead: false,
                    takes_secrets: true,
                    description: "{}".into(),
                },
                Method {
                    name: "good_two".into(),
                    cost: Cost::Slow,
                    only_reads: false,
                    is_ahead: true,
                    takes_secrets: false,
                    description: "{}".into(),
                },
            ],
            subscriptions: vec!["things".into()],
            sends_frames: true,
        }
    }

    fn through_the_wire(fill: impl FnOnce(&mut Vec<u8>)) -> Result<Manifest, ManifestError> {
        let mut bytes = Vec::new();
        put_frame(&mut bytes, Kind::Manifest, 0, fill);
        let mut buffer = FrameBuffer::new();
        buffer.room()[..bytes.len()].copy_from_slice(&bytes);
        buffer.arrived(bytes.len());
        let frame = buffer.next().unwrap().unwrap();
        read_manifest(&mut frame.fields())
    }

    #[test]
    fn a_manifest_survives_the_wire() {
        assert_eq!(through_the_wire(|out| put_manifest(out, &manifest())), Ok(manifest()));
    }

    #[test]
    fn a_manifest_from_the_wire_is_checked_like_any_other() {
        let foreign = Manifest { namespace: "other".into(), ..manifest() };

        let refused = through_the_wire(|out| put_manifest(out, &foreign)).unwrap_err();

        assert_eq!(refused.to_string(), "method \"good_one\" is not in namespace other");
    }
}
