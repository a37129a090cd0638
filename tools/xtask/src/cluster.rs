//! `cargo xtask cluster`: starts three NATS servers on this machine that work together, for trying
//! out what survives the loss of one. Ctrl-C stops them. What they have stored is gone then.

use std::fmt::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::{packages, readers, workspace};

/// The ports of the first server, for clients and for other servers. The next ones follow.
const CLIENTS: u16 = 4222;
const SERVERS: u16 = 6222;

/// Starts the first argument three times, with the configurations in the directory that is the
/// second one. Stops all of them when it is itself stopped, and removes the directory.
const SCRIPT: &str = r#"
all=
for number in 0 1 2; do
  "$0" -c "$1/$number.conf" & all="$all $!"
done
trap 'kill $all' INT TERM HUP
wait; wait
rm -rf "$1"
"#;

pub(crate) fn run() -> Outcome {
    let missing = packages::install_missing(&readers::PACKAGES[..1]);
    packages::warn_of_missing(&missing);
    let server = readers::NATS.install_in_target()?.join("bin/nats-server");
    let directory = workspace::target_directory("cluster").join(std::process::id().to_string());
    let cannot = |why| format!("cannot write {}: {why}", directory.display());
    std::fs::create_dir_all(&directory).map_err(cannot)?;
    for number in 0..3 {
        let file = directory.join(format!("{number}.conf"));
        std::fs::write(file, configuration(&directory, number)).map_err(cannot)?;
    }
    println!(
        "==> url = \"nats://127.0.0.1:{CLIENTS},127.0.0.1:{},127.0.0.1:{}\"",
        CLIENTS + 1,
        CLIENTS + 2
    );
    println!("    replicas = 3 stores on all of them; kill one and see. Ctrl-C stops them.");
    let why = Command::new("sh")
        .args(["-c", SCRIPT])
        .arg(server)
        .arg(&directory)
        .exec();
    Err(format!("cannot start a shell: {why}"))
}

fn configuration(directory: &Path, number: u16) -> String {
    let mut routes = String::new();
    for other in 0..3 {
        // A string takes all that is written to it.
        let _ = write!(routes, "\"nats://127.0.0.1:{}\", ", SERVERS + other);
    }
    format!(
        "server_name: baton-{number}\nlisten: \"127.0.0.1:{}\"\n\
         jetstream {{ store_dir: \"{}\", sync_interval: always }}\n\
         cluster {{ name: baton, listen: \"127.0.0.1:{}\", routes: [{routes}] }}\n",
        CLIENTS + number,
        directory.join(format!("stored-{number}")).display(),
        SERVERS + number,
    )
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn each_server_has_ports_and_a_directory_of_its_own() {
        let (first, second) = (
            configuration(Path::new("there"), 0),
            configuration(Path::new("there"), 1),
        );
        assert!(first.contains("listen: \"127.0.0.1:4222\"") && first.contains("there/stored-0"));
        assert!(second.contains("listen: \"127.0.0.1:4223\"") && second.contains("there/stored-1"));
        assert!(first.contains("routes: [\"nats://127.0.0.1:6222\", \"nats"));
    }
}
