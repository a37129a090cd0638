//! Servers that tests start: as a user other than root, in a directory of their own, and ended with
//! the test.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::harness::{peer, signals};

/// Debian's `nobody` and `nogroup`: the server's user if the test runs as root.
const NOBODY: u32 = 65534;

/// A running server.
pub(crate) struct Server {
    child: Child,
    dir: PathBuf,
    port: u16,
}

impl Server {
    /// PostgreSQL with the user `baton`, only on a Unix socket in its directory. If it is not
    /// installed, returns none and reports that.
    pub(crate) fn postgres() -> Option<Self> {
        let Some(programs) = postgres_programs() else {
            peer::skip("what needs a PostgreSQL server", "install postgresql");
            return None;
        };
        let dir = new_dir("postgres");
        let data = dir.join("data");
        let mut init = as_nobody(&programs.join("initdb"), &dir);
        init.args([
            "-A",
            "trust",
            "-U",
            "baton",
            "-E",
            "UTF8",
            "--no-sync",
            "-D",
        ])
        .arg(&data);
        succeed(init);
        let mut command = as_nobody(&programs.join("postgres"), &dir);
        command.arg("-D").arg(&data).arg("-k").arg(&dir);
        command.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        Some(Self::start(
            command,
            dir,
            0,
            "database system is ready to accept connections",
        ))
    }

    /// MariaDB with the database `test` and its user `root` without a password, on a Unix socket
    /// and on a port of 127.0.0.1.
    pub(crate) fn mariadb() -> Option<Self> {
        let server = Path::new("/usr/sbin/mariadbd");
        let install = Path::new("/usr/bin/mariadb-install-db");
        if !server.exists() || !install.exists() {
            peer::skip("what needs a MariaDB server", "install mariadb-server-core");
            return None;
        }
        let dir = new_dir("mariadb");
        let data = format!("--datadir={}", dir.join("data").display());
        let mut init = as_nobody(install, &dir);
        init.args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]);
        succeed({
            init.arg(&data);
            init
        });
        std::fs::create_dir(dir.join("data/test")).expect("a database can be made");
        own(&dir.join("data/test"));
        let port = free_port();
        let mut command = as_nobody(server, &dir);
        command.args([
            "--no-defaults",
            "--bind-address=127.0.0.1",
            "--innodb-flush-log-at-trx-commit=0",
        ]);
        command.arg(data).arg(format!("--port={port}"));
        command.arg(format!("--socket={}", dir.join("socket").display()));
        Some(Self::start(command, dir, port, "ready for connections"))
    }

    /// OpenLDAP with the empty domain `dc=test`, on a Unix socket in its directory. The
    /// administrator's password is `secret`.
    pub(crate) fn slapd() -> Option<Self> {
        let (slapd, slapadd) = (Path::new("/usr/sbin/slapd"), Path::new("/usr/sbin/slapadd"));
        if !slapd.exists() || !slapadd.exists() {
            peer::skip("what needs an LDAP server", "install slapd");
            return None;
        }
        let dir = new_dir("slapd");
        let data = dir.join("data");
        std::fs::create_dir(&data).expect("a directory for the data can be made");
        own(&data);
        let settings = format!(
            "include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\n\
             database mdb\nsuffix dc=test\nrootdn cn=admin,dc=test\nrootpw secret\nmaxsize \
             10485760\ndirectory {}\n",
            data.display()
        );
        let (settings_file, domain) = (dir.join("slapd.conf"), dir.join("domain.ldif"));
        std::fs::write(&settings_file, settings).expect("the server's directory can be written to");
        let entry =
            "dn: dc=test\nobjectClass: dcObject\nobjectClass: organization\ndc: test\no: test\n";
        std::fs::write(&domain, entry).expect("the server's directory can be written to");
        let mut init = as_nobody(slapadd, &dir);
        init.arg("-f").arg(&settings_file).arg("-l").arg(&domain);
        succeed(init);
        let mut command = as_nobody(slapd, &dir);
        command
            .args(["-d", "stats", "-h", &ldap_address(&dir)])
            .arg("-f")
            .arg(&settings_file);
        Some(Self::start(command, dir, 0, "slapd starting"))
    }

    /// Redis, empty, on a port of 127.0.0.1.
    pub(crate) fn redis() -> Option<Self> {
        let program = "/usr/bin/redis-check-rdb";
        if !Path::new(program).exists() {
            peer::skip("what needs a Redis server", "install redis-tools");
            return None;
        }
        let (dir, port) = (new_dir("redis"), free_port());
        // Debian's program that checks databases is the server under another name. The server's
        // package adds only the service.
        let server = dir.join("redis-server");
        std::os::unix::fs::symlink(program, &server)
            .expect("the server's directory can be written to");
        let mut command = said_on_stderr(&server, &dir);
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ]);
        Some(Self::start(
            command,
            dir,
            port,
            "Ready to accept connections",
        ))
    }

    /// A mail server on a port of 127.0.0.1. It stores messages as files in `mail/new` of its
    /// directory.
    pub(crate) fn mail() -> Option<Self> {
        let program = "/usr/bin/aiosmtpd";
        if !Path::new(program).exists() {
            peer::skip("what needs a mail server", "install python3-aiosmtpd");
            return None;
        }
        let (dir, port) = (new_dir("mail"), free_port());
        let mut command = as_nobody(Path::new(program), &dir);
        command.args(["-n", "-d", "-l", &format!("127.0.0.1:{port}")]);
        command
            .args(["-c", "aiosmtpd.handlers.Mailbox"])
            .arg(dir.join("mail"));
        Some(Self::start(command, dir, port, "Server is listening"))
    }

    /// The address of the LDAP server.
    pub(crate) fn ldap_address(&self) -> String {
        ldap_address(&self.dir)
    }

    /// The server's directory, where its socket is.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The port that it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Waits until the server reports on stderr that it is ready. Later output is read and
    /// discarded.
    fn start(mut command: Command, dir: PathBuf, port: u16, ready: &str) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        signals::give_children_default_actions();
        let mut child = command.spawn().expect("the server can be started");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let server = Self { child, dir, port };
        let mut said = String::new();
        while !said.contains(ready) {
            let count = lines
                .read_line(&mut said)
                .expect("the server's messages can be read");
            assert!(
                count > 0,
                "the server {command:?} ended before it was ready:\n{said}"
            );
        }
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Server {
    /// Sends SIGQUIT, which ends PostgreSQL and its children at once. A server that ignores it is
    /// killed.
    fn end(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        signals::send(self.child.id(), "QUIT");
        let patience = Instant::now() + Duration::from_secs(5);
        while Instant::now() < patience {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address of a Unix socket: its path takes the place of the host.
fn ldap_address(dir: &Path) -> String {
    let socket = dir.join("socket").display().to_string();
    format!("ldapi://{}", socket.replace('/', "%2F"))
}

fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    versions
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .find(|programs| programs.join("initdb").exists() && programs.join("postgres").exists())
}

/// Makes a directory that the server's user owns. Its path is short, as the path of a Unix socket
/// must be.
fn new_dir(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only the numbers must differ.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("baton-{name}-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory for the server can be made");
    std::fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("the directory is ours");
    own(&dir);
    dir
}

fn is_root(dir: &Path) -> bool {
    std::fs::metadata(dir).is_ok_and(|metadata| metadata.uid() == 0)
}

/// Gives a path that root has made to the server's user.
fn own(path: &Path) {
    if is_root(path) {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY))
            .expect("root may give a directory away");
    }
}

/// A command in the directory, run by `nobody` if the test runs as root.
fn as_nobody(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(dir)
        .env("HOME", dir)
        .env("TMPDIR", dir)
        .env("LC_ALL", "C");
    if is_root(Path::new("/proc/self")) {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// The same for a program that reports its state on stdout. It leaves no core dump when it is
/// ended.
fn said_on_stderr(program: &Path, dir: &Path) -> Command {
    let mut command = as_nobody(Path::new("/bin/sh"), dir);
    command
        .args(["-c", "ulimit -c 0; exec \"$0\" \"$@\" >&2"])
        .arg(program);
    command
}

fn succeed(mut command: Command) {
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("the program can be started");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.expect("there is a free port").port()
}
