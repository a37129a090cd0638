//! The certificates of a server or client with their keys, and the choice by the name that a client
//! asks for.

use super::failure;
use super::pem::Pem;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// A certificate and its key, as a program gives them.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) certificate: Pem,
    pub(crate) key: Pem,
}

impl Given {
    /// Reads both. The certificate is the first of the file. The others are of authorities between
    /// it and one that the peer knows.
    pub(crate) fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
        let chain = self.certificate.certificates()?;
        let key = self.key.key()?;
        CertifiedKey::from_der(chain, key, provider).map_err(|why| match why {
            rustls::Error::InconsistentKeys(_) => format!(
                "the key in {} is not that of the first certificate in {}",
                self.key, self.certificate
            ),
            rustls::Error::InvalidCertificate(_) => {
                format!("{}: {}", self.certificate, failure::in_words(&why))
            }
            _ => format!("the key in {} cannot be used: {why}", self.key),
        })
    }
}

/// The certificates of a server, in the order in which they are tried.
#[derive(Debug)]
pub(crate) struct Choice(pub(crate) Vec<Arc<CertifiedKey>>);

/// Whether a certificate is for this name.
fn is_for(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    key.end_entity_cert().is_ok_and(|certificate| {
        ParsedCertificate::try_from(certificate)
            .is_ok_and(|parsed| verify_server_name(&parsed, name).is_ok())
    })
}

impl ResolvesServerCert for Choice {
    /// The first one for the name whose key the client can check; if none is for the name, the
    /// first one whose key it can check.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let usable =
            |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        let name = hello.server_name().map(ServerName::try_from);
        let for_name = name.and_then(Result::ok).and_then(|name| {
            let mut all = self.0.iter().filter(usable);
            all.find(|key| self.0.len() == 1 || is_for(key, &name))
        });
        for_name.or_else(|| self.0.iter().find(usable)).cloned()
    }
}
