//! Certificates and keys as PEM: a text, or a file that has it.

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// The largest file that is read. The certificates of all authorities of a system have 300 KB.
const LARGEST: u64 = 16 << 20;

/// Where a PEM text comes from.
#[derive(Clone, Debug)]
pub(crate) enum Pem {
    Text(String),
    /// It is read again whenever the text is needed.
    File(PathBuf),
}

impl Pem {
    /// What a program gives: a text if a section of PEM begins in it, else the name of a file.
    pub(crate) fn of(given: String) -> Pem {
        if given.contains("-----BEGIN ") {
            Pem::Text(given)
        } else {
            Pem::File(given.into())
        }
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        let path = match self {
            Pem::Text(text) => return Ok(text.clone().into_bytes()),
            Pem::File(path) => path,
        };
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
        match read {
            Err(why) => Err(format!("cannot read {self}: {why}")),
            Ok(size) if size as u64 > LARGEST => Err(format!(
                "{self} is larger than {LARGEST} bytes, the most that is read"
            )),
            Ok(_) => Ok(bytes),
        }
    }

    /// All certificates, of which there is at least one.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let text = self.read()?;
        let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
        match all {
            Err(why) => Err(format!("{self} is no PEM: {why}")),
            Ok(all) if all.is_empty() => Err(format!(
                "{self} has no certificate (expected a section BEGIN CERTIFICATE)"
            )),
            Ok(all) => Ok(all),
        }
    }

    /// The first private key.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, String> {
        let text = self.read()?;
        let encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
        match PrivateKeyDer::from_pem_slice(&text) {
            Ok(key) => Ok(key),
            Err(pem::Error::NoItemsFound)
                if text.windows(encrypted.len()).any(|part| part == encrypted) =>
            {
                Err(format!(
                    "the key in {self} is encrypted; decrypt it with 'openssl pkey'"
                ))
            }
            Err(pem::Error::NoItemsFound) => Err(format!(
                "{self} has no private key (expected a section BEGIN PRIVATE KEY)"
            )),
            Err(why) => Err(format!("{self} is no PEM: {why}")),
        }
    }
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::Text(_) => f.write_str("the given text"),
            Pem::File(path) => write!(f, "'{}'", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_a_section_is_the_name_of_a_file() {
        let of_file = Pem::of("no such file.pem".to_owned());
        let said = of_file.certificates().expect_err("there is no such file");
        assert!(
            said.starts_with("cannot read 'no such file.pem': "),
            "{said}"
        );
    }

    #[test]
    fn what_is_missing_in_a_text_is_said() {
        let label = "ENCRYPTED PRIVATE KEY-----";
        let pem = Pem::of(format!("-----BEGIN {label}\nAAAA\n-----END {label}"));
        let said = pem.key().expect_err("it is encrypted");
        assert!(said.contains("is encrypted"), "{said}");
        let said = pem.certificates().expect_err("it has none");
        assert!(said.contains("has no certificate"), "{said}");
    }
}
