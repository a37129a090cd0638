//! Connecting, and what is said if that is not possible.

use super::Shared;
use super::clients::Life;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event as ClientEvent};
use nkeys::KeyPair;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

// async-nats keeps what a server sends until a line or a message ends, in a buffer of its own that
// no option bounds. While it reads without a pause it takes no command, not even one to reconnect.
// So the two times below are the bound for a server that sends one endless line. The attempt to
// connect, or the client, ends with them, and the buffer with it. Over the loopback that was 0.5 GB
// in an attempt and 0.7 GB in a client, and 1.3 GB for a message of 4 GB.

/// A server that answers no ping for so long, two times, cannot be reached.
const PING: Duration = Duration::from_secs(2);

/// How long a server may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// The first and the longest delay between two attempts to reconnect.
pub(super) const DELAYS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Where to connect, and as whom.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// One or more URLs, with commas between them.
    pub url: String,
    /// What the server calls the connection.
    pub name: String,
    /// A user, and a password.
    pub user: Option<(String, String)>,
    /// A token, in place of a user.
    pub token: Option<String>,
    /// A file of credentials, as `nsc` writes it, or with the seed of a user's key.
    pub credentials: Option<PathBuf>,
    /// Whether the connection must be encrypted.
    pub is_encrypted: bool,
    /// Certificates of those whom to believe who the server is.
    pub authority: Option<PathBuf>,
    /// Our own certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Connects. From then on, the watch says whether the server can be reached, as long as the client
/// lives.
pub(super) async fn connect(
    options: &Options,
    shared: &Arc<Shared>,
    online: &watch::Sender<bool>,
) -> Result<(Client, Life), String> {
    let (living, life) = oneshot::channel::<()>();
    let (to_share, online) = (Arc::clone(shared), online.clone());
    let mut settings = ConnectOptions::new()
        .name(&options.name)
        .ping_interval(PING)
        .connection_timeout(PATIENCE)
        .request_timeout(None)
        .client_capacity(4096)
        .subscription_capacity(1 << 16)
        .max_reconnects(None)
        .reconnect_delay_callback(delay)
        .event_callback(move |event| {
            let _living = &living;
            let is_online = match event {
                ClientEvent::Connected => Some(true),
                ClientEvent::Disconnected | ClientEvent::Closed => Some(false),
                _ => None,
            };
            if let Some(is_online) = is_online {
                set_online(&to_share, &online, is_online);
            }
            async {}
        });
    let of_url = || user_of(&options.url).filter(|_| !options.has_credentials());
    if let Some((user, password)) = options.user.clone().or_else(of_url) {
        settings = settings.user_and_password(user, password);
    }
    if let Some(token) = &options.token {
        settings = settings.token(token.clone());
    }
    if let Some(file) = &options.credentials {
        settings = with_file(settings, file).map_err(|why| {
            format!(
                "cannot use the credentials in '{}' ({why}); a file expected as 'nsc generate \
                 creds' writes it, or with the seed of a user's key alone",
                file.display()
            )
        })?;
    }
    if options.is_encrypted {
        settings = settings.require_tls(true);
    }
    for file in [&options.authority].into_iter().flatten() {
        check_readable(file, "the certificates")?;
        settings = settings.add_root_certificates(file.clone());
    }
    if let Some((certificate, key)) = &options.certificate {
        check_readable(certificate, "the certificate")?;
        check_readable(key, "the key")?;
        settings = settings.add_client_certificate(certificate.clone(), key.clone());
    }
    let servers: Vec<&str> = options.url.split(',').map(str::trim).collect();
    match settings.connect(&servers[..]).await {
        Ok(client) => Ok((client, Life(life))),
        Err(error) => Err(explain(options, &error)),
    }
}

/// Says whether the server can be reached.
pub(super) fn set_online(shared: &Shared, online: &watch::Sender<bool>, is_online: bool) {
    shared.set_online(is_online);
    online.send_if_modified(|before| std::mem::replace(before, is_online) != is_online);
}

impl Options {
    fn has_credentials(&self) -> bool {
        self.token.is_some() || self.credentials.is_some()
    }
}

/// The user and the password of the first URL that has them.
fn user_of(url: &str) -> Option<(String, String)> {
    let of_one = |one: &str| {
        let (_, rest) = one.split_once("://")?;
        let (user, _) = rest.rsplit_once('@')?;
        let (user, password) = user.split_once(':')?;
        Some((decoded(user), decoded(password)))
    };
    url.split(',').find_map(of_one)
}

/// A part of a URL, where %40 stands for the byte 0x40.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part
            .get(..2)
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => {
                bytes.push(b'%');
                bytes.extend(part.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Adds what a file has: a JWT and the seed of its key, or a seed alone.
fn with_file(settings: ConnectOptions, file: &Path) -> io::Result<ConnectOptions> {
    let text = std::fs::read_to_string(file)?;
    let seed = text.trim();
    if !seed.starts_with("SU") {
        return settings.credentials(&text);
    }
    match KeyPair::from_seed(seed) {
        Ok(_) => Ok(settings.nkey(seed.to_owned())),
        Err(why) => Err(io::Error::other(format!("it is no seed: {why}"))),
    }
}

/// A delay that doubles with each attempt, up to a second. Part of it is left to chance, so that
/// not all clients of a server come back at once.
pub(super) fn delay(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1).min(10)).unwrap_or(10);
    let longest = (DELAYS.0 * (1 << doublings)).min(DELAYS.1);
    let chance = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), attempts);
    longest / 2 + (longest / 2).mul_f64(f64::from(chance as u32) / f64::from(u32::MAX))
}

fn check_readable(file: &std::path::Path, what: &str) -> Result<(), String> {
    match std::fs::File::open(file) {
        Ok(_) => Ok(()),
        Err(why) => Err(format!(
            "cannot read {what} in '{}' ({why})",
            file.display()
        )),
    }
}

/// What was expected, what came, and what to do.
fn explain(options: &Options, error: &async_nats::ConnectError) -> String {
    let url = without_password(&options.url);
    let why = innermost(error);
    match error.kind() {
        ConnectErrorKind::ServerParse => format!(
            "cannot connect to '{url}' ({why}); a URL like nats://host:4222 or tls://host:4222 \
             expected"
        ),
        ConnectErrorKind::Dns => format!(
            "cannot find the host of '{url}' ({why}); check the name, and this machine's resolver"
        ),
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => format!(
            "the server at '{url}' refuses these credentials; check 'credentials' against the \
             server's users ({why})"
        ),
        ConnectErrorKind::TimedOut => format!(
            "no NATS server has answered at '{url}' within {} s; check that one listens there",
            PATIENCE.as_secs()
        ),
        _ if why.contains("CertificateRequired") => format!(
            "the server at '{url}' wants a certificate of this program ({why}); give it in \
             'tls.cert', and its key in 'tls.key'"
        ),
        _ if why.contains("corrupt message") => not_encrypted(&url, &why),
        _ if is_about_certificates(&why) => format!(
            "no encrypted connection to '{url}' ({why}); check that 'tls.ca' has the certificate \
             of the authority that has signed the server's, and that the server's names this host"
        ),
        ConnectErrorKind::Tls => not_encrypted(&url, &why),
        _ => format!("cannot connect to '{url}' ({why}); check that a NATS server listens there"),
    }
}

fn not_encrypted(url: &str, why: &str) -> String {
    format!(
        "no encrypted connection to '{url}' ({why}); check 'tls', and that the server has it on"
    )
}

fn is_about_certificates(why: &str) -> bool {
    let why = why.to_ascii_lowercase();
    ["certificate", "tls", "handshake"]
        .iter()
        .any(|word| why.contains(word))
}

/// The error that has caused the others.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = error.to_string();
        next = error.source();
    }
    text
}

/// A URL may have a password in it, which no message should have.
fn without_password(url: &str) -> String {
    url.split(',')
        .map(|one| match (one.find("://"), one.rfind('@')) {
            (Some(scheme), Some(at)) if at > scheme => {
                format!("{}{}", &one[..scheme + 3], &one[at + 1..])
            }
            _ => one.to_owned(),
        })
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_has_a_password() {
        assert_eq!(
            without_password("nats://me:secret@one:4222,two"),
            "nats://one:4222,two"
        );
    }

    #[test]
    fn a_url_may_have_a_user() {
        let me = Some(("me".to_owned(), "s@c:r%t".to_owned()));
        assert_eq!(user_of("one:4222,nats://me:s%40c%3ar%t@two:4222"), me);
        assert_eq!(user_of("nats://one:4222"), None);
        assert_eq!(user_of("nats://word@one"), None);
    }

    #[test]
    fn delays_grow_to_a_second_and_no_further() {
        assert!(delay(1) <= DELAYS.0);
        assert!((DELAYS.1 / 2..=DELAYS.1).contains(&delay(7)));
        assert!(delay(usize::MAX) <= DELAYS.1);
    }
}
