//! What connections of one server, or to servers of one kind, have in common: certificates,
//! authorities, tickets of earlier sessions.

use super::certificates::{Choice, Given};
use super::failure;
use super::pem::Pem;
use super::unchecked::Unchecked;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whether the peer's certificate is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verify {
    /// A server's always. A client's, and the client must have one, if the server names an
    /// authority.
    #[default]
    Required,
    /// A client may have none.
    Optional,
    /// Any certificate is accepted.
    Never,
}

/// What a program says of its connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) certificates: Vec<Given>,
    /// `None`: the authorities that the system knows.
    pub(crate) authorities: Option<Pem>,
    pub(crate) verify: Verify,
    /// By ALPN, the preferred one first.
    pub(crate) protocols: Vec<Vec<u8>>,
}

/// The sides that have been used. They are replaced as a whole.
#[derive(Debug, Default)]
struct Sides {
    server: Option<Arc<ServerConfig>>,
    client: Option<Arc<ClientConfig>>,
}

/// The options, and what was read for them.
#[derive(Debug)]
pub(crate) struct Context {
    options: Options,
    /// Held while files are read: several native threads may be in calls beside the VM.
    sides: Mutex<Sides>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What the mutex guards is replaced in one step, so a panic leaves it whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Context {
    pub(crate) fn new(options: Options) -> Context {
        Context {
            options,
            sides: Mutex::default(),
        }
    }

    pub(crate) fn server(&self) -> Result<Arc<ServerConfig>, String> {
        let mut sides = lock(&self.sides);
        if let Some(config) = &sides.server {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(server_config(&self.options)?);
        sides.server = Some(Arc::clone(&config));
        Ok(config)
    }

    pub(crate) fn client(&self) -> Result<Arc<ClientConfig>, String> {
        let mut sides = lock(&self.sides);
        if let Some(config) = &sides.client {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(client_config(&self.options)?);
        sides.client = Some(Arc::clone(&config));
        Ok(config)
    }

    /// Reads all files again, for connections that begin from now on. After a failure the context
    /// stays as it was.
    pub(crate) fn reload(&self) -> Result<(), String> {
        let mut sides = lock(&self.sides);
        if self.options.authorities.is_none() {
            *lock(&SYSTEM) = None;
        }
        let mut new = Sides::default();
        if sides.client.is_some() {
            new.client = Some(Arc::new(client_config(&self.options)?));
        }
        // A context that was never used tries whether it can be a server's.
        if sides.server.is_some() || !self.options.certificates.is_empty() {
            new.server = Some(Arc::new(server_config(&self.options)?));
        }
        *sides = new;
        Ok(())
    }
}

/// The authorities of the system, once they were needed.
static SYSTEM: Mutex<Option<Arc<RootCertStore>>> = Mutex::new(None);

fn system_authorities() -> Result<Arc<RootCertStore>, String> {
    let mut known = lock(&SYSTEM);
    if let Some(store) = &*known {
        return Ok(Arc::clone(store));
    }
    let mut store = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let why = found.errors.first().map(|why| format!(" ({why})"));
        return Err(format!(
            "this system has no certificates of authorities{}; install its package \
             ca-certificates, or name a file in 'ca'",
            why.unwrap_or_default()
        ));
    }
    let store = Arc::new(store);
    *known = Some(Arc::clone(&store));
    Ok(store)
}

fn authorities(options: &Options) -> Result<Arc<RootCertStore>, String> {
    let Some(given) = &options.authorities else {
        return system_authorities();
    };
    let mut store = RootCertStore::empty();
    for certificate in given.certificates()? {
        store
            .add(certificate)
            .map_err(|why| format!("{given}: {}", failure::in_words(&why)))?;
    }
    Ok(Arc::new(store))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn client_verifier(options: &Options) -> Result<Arc<dyn ClientCertVerifier>, String> {
    if options.verify == Verify::Never || options.authorities.is_none() {
        return Ok(Arc::new(NoClientAuth));
    }
    let roots = authorities(options)?;
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider());
    if options.verify == Verify::Optional {
        builder = builder.allow_unauthenticated();
    }
    let verifier = builder.build().map_err(|why| why.to_string())?;
    Ok(verifier)
}

fn server_config(options: &Options) -> Result<ServerConfig, String> {
    let provider = provider();
    let keys: Result<Vec<_>, String> = options
        .certificates
        .iter()
        .map(|given| given.read(&provider).map(Arc::new))
        .collect();
    let keys = keys?;
    if keys.is_empty() {
        return Err("a server needs a certificate and its key: 'cert' and 'key'".to_owned());
    }
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .with_client_cert_verifier(client_verifier(options)?)
        .with_cert_resolver(Arc::new(Choice(keys)));
    config.alpn_protocols.clone_from(&options.protocols);
    config.ticketer = ring::Ticketer::new().map_err(|why| why.to_string())?;
    Ok(config)
}

fn server_verifier(options: &Options) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let provider = provider();
    if options.verify == Verify::Never {
        return Ok(Arc::new(Unchecked(provider)));
    }
    let roots = authorities(options)?;
    let builder = WebPkiServerVerifier::builder_with_provider(roots, provider);
    let verifier = builder.build().map_err(|why| why.to_string())?;
    Ok(verifier)
}

fn client_config(options: &Options) -> Result<ClientConfig, String> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(server_verifier(options)?);
    let mut config = match options.certificates.first() {
        None => builder.with_no_client_auth(),
        Some(given) => {
            let key = given.read(&provider)?;
            let only = rustls::sign::SingleCertAndKey::from(key);
            builder.with_client_cert_resolver(Arc::new(only))
        }
    };
    config.alpn_protocols.clone_from(&options.protocols);
    Ok(config)
}
