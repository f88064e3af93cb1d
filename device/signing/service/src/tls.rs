//! TLS with client certificates.

use std::{io::Read as _, path::Path, sync::Arc};

use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::WebPkiClientVerifier,
    },
};
use zeroize::Zeroizing;

use crate::{
    HttpEntry, HttpStartError,
    http::{file_error, sha256},
};

/// Maximum length of a file of certificates, bytes.
const MAX_FILE: u64 = 1 << 20;

/// The TLS acceptor for HTTP; `None` if the settings have no certificate.
///
/// # Errors
/// [`HttpStartError::File`].
pub(crate) fn acceptor(http: &HttpEntry) -> Result<Option<TlsAcceptor>, HttpStartError> {
    let (Some(certificate), Some(key)) = (&http.certificate, &http.key) else { return Ok(None) };
    let wrong = |error: &dyn std::fmt::Display| file_error(certificate, error.to_string());
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    let builder = match &http.authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority).map_err(|error| file_error(path, error.to_string()))?;
            }
            let provider = Arc::new(ring::default_provider());
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|error| file_error(path, error.to_string()))?)
        }
    };
    let text = read(key)?;
    let private = PrivateKeyDer::from_pem_slice(&text).map_err(|error| file_error(key, error.to_string()))?;
    let config = builder.with_single_cert(certificates(certificate)?, private).map_err(|error| wrong(&error))?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

/// SHA-256 of a client's certificate, which is the first one in its file.
///
/// # Errors
/// [`HttpStartError::File`].
pub(crate) fn certificate_hash(path: &Path) -> Result<[u8; 32], HttpStartError> {
    let certificates = certificates(path)?;
    let first = certificates.first().ok_or_else(|| file_error(path, "it has no certificate"))?;
    Ok(sha256(first))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, HttpStartError> {
    let text = read(path)?;
    let read = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|error| file_error(path, error.to_string()))?;
    match read.is_empty() {
        true => Err(file_error(path, "it has no certificate")),
        false => Ok(read),
    }
}

/// Reads a file, whose bytes may contain a private key.
fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, HttpStartError> {
    let mut bytes = Zeroizing::new(Vec::new());
    let file = std::fs::File::open(path).map_err(|error| file_error(path, error.to_string()))?;
    let read = file.take(MAX_FILE).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|error| file_error(path, error.to_string()))
}
