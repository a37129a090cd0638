//! Certificates for tests, made by the program `openssl`, as files in one directory:
//!
//! | files | for |
//! |---|---|
//! | `ca.pem` | the authority of all others but `stranger` |
//! | `localhost.pem`, `.key` | localhost and 127.0.0.1 |
//! | `other.pem`, `.key` | other.example and *.wild.example |
//! | `client.pem`, `.key` | a client |
//! | `expired.pem`, `.key` | localhost, until 2021 |
//! | `stranger.pem`, `.key` | localhost, of an authority that nobody knows |
//! | `self.pem`, `.key` | localhost, signed by itself as `openssl req -x509` does |

use super::skip::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// They are made for 30 days.
const USED_FOR: Duration = Duration::from_secs(20 * 86_400);

/// The directory. `None`: there is no `openssl`, and that was reported.
pub(crate) fn directory() -> Option<&'static Path> {
    static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = DIRECTORY.get_or_init(|| {
        let there = Command::new("openssl").arg("version").output();
        there.is_ok_and(|run| run.status.success()).then(make)
    });
    if made.is_none() {
        skip("TLS with other programs", "install openssl");
    }
    made.as_deref()
}

fn openssl(directory: &Path, words: &str) {
    let mut command = Command::new("openssl");
    command
        .args(words.split_whitespace())
        .current_dir(directory);
    let run = command.stdin(Stdio::null()).output();
    let run = run.expect("openssl can be started");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "openssl {words}\n{said}");
}

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

fn authority(directory: &Path, name: &str) {
    openssl(
        directory,
        &format!("req -x509 {KEY} -keyout {name}.key -out {name}.pem -days 30 -subj /CN={name}"),
    );
}

fn signed(directory: &Path, name: &str, authority: &str, names: &str) {
    let extensions = format!("subjectAltName={names}\nbasicConstraints=CA:FALSE\n");
    let write = |end: &str, text: &str| {
        std::fs::write(directory.join(format!("{name}.{end}")), text).expect("a file");
    };
    write("ext", &extensions);
    write("index", "");
    write(
        "cnf",
        &format!(
            "[ca]\ndefault_ca=own\n[own]\ndatabase={name}.index\nnew_certs_dir=.\nrand_serial=yes\n\
             default_md=sha256\npolicy=any\ncertificate={authority}.pem\n\
             private_key={authority}.key\n[any]\ncommonName=supplied\n"
        ),
    );
    openssl(
        directory,
        &format!("req {KEY} -keyout {name}.key -out {name}.csr -subj /CN={name}"),
    );
    let time = match name {
        "expired" => "-startdate 20200101000000Z -enddate 20210101000000Z",
        _ => "-days 30",
    };
    openssl(
        directory,
        &format!(
            "ca -batch -notext -config {name}.cnf -extfile {name}.ext {time} -in {name}.csr \
             -out {name}.pem"
        ),
    );
}

/// The directory of an earlier run, unless its certificates are old, or else a new one.
fn make() -> PathBuf {
    let tests = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let directory = tests.join("certificates");
    let made = std::fs::metadata(directory.join("made")).and_then(|file| file.modified());
    let is_young = |time: SystemTime| time.elapsed().is_ok_and(|age| age < USED_FOR);
    if made.is_ok_and(is_young) {
        return directory;
    }
    let new = tests.join(format!("certificates-{}", std::process::id()));
    std::fs::create_dir_all(&new).expect("a directory can be made");
    make_in(&new);
    let _ = std::fs::remove_dir_all(&directory); // there may be none
    if std::fs::rename(&new, &directory).is_err() {
        // Another test has made it meanwhile.
        std::fs::remove_dir_all(&new).expect("a directory can be removed");
    }
    directory
}

fn make_in(directory: &Path) {
    let here = "DNS:localhost,IP:127.0.0.1";
    authority(directory, "ca");
    authority(directory, "unknown");
    authority(directory, "self");
    signed(directory, "localhost", "ca", here);
    signed(
        directory,
        "other",
        "ca",
        "DNS:other.example,DNS:*.wild.example",
    );
    signed(directory, "client", "ca", "DNS:client.example");
    signed(directory, "expired", "ca", here);
    signed(directory, "stranger", "unknown", here);
    std::fs::write(directory.join("made"), "").expect("a file");
}
