//! The flight recorder: what led to a deadlock, a stall or an error is written to a file.
//!
//! The file is in the working directory, or else in the directory for temporary files. A file that
//! exists is never overwritten. Only the user may read it. A program that has more rights than its
//! user writes none.

use super::ending::Listed;
use super::last;
use super::taken::Taken;
use baton_core::vm::{Inside, Vm};
use baton_observe::observer;
use baton_sys::features;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

/// The most files of a kind that one program writes.
const MOST_FILES: u32 = 100;

/// Who may do what with a file: its owner may read and write it.
const MODE: u32 = 0o600;

/// Writes the events that are kept, if any are, and says where. `why` is a word for the name of the
/// file. Inside the VM, which stands still meanwhile: for a program that ends.
pub(crate) fn write_now(inside: &Inside<'_>, why: &str) {
    let keep = inside.parameters.flight.get();
    if keep.is_zero() {
        return;
    }
    let taken = Taken::new(inside, 0).of_last(keep);
    let written = create(why).and_then(|(path, file)| {
        taken.write(BufWriter::new(file))?;
        Ok(path)
    });
    tell(written, why);
}

/// The same on a thread of its own, while the program goes on. On any thread. If the system refuses
/// a thread, nothing is written.
pub(crate) fn write_beside(vm: &Arc<Vm>, why: &'static str) {
    if vm.parameters.flight.get().is_zero() {
        return;
    }
    let vm = Arc::clone(vm);
    let started = observer::start_counted("baton-flight", move || {
        let listed = Listed::new();
        let mut path = PathBuf::new();
        let written = last(&vm, &listed, || {
            let file;
            (path, file) = create(why)?;
            Ok(BufWriter::new(file))
        });
        let written = written.map_err(io::Error::other);
        tell(written.map(|_| path), why);
    });
    if let Err(error) = started {
        tell(Err(error), why);
    }
}

/// An error of this write cannot be reported.
fn tell(written: io::Result<PathBuf>, why: &str) {
    let mut stderr = io::stderr();
    let _ = match written {
        Ok(path) => writeln!(
            stderr,
            "baton: the events before the {why} are in {}; open it in https://ui.perfetto.dev",
            path.display()
        ),
        Err(error) => writeln!(
            stderr,
            "baton: cannot write the events before the {why}: {error}"
        ),
    };
}

/// Makes a new file.
fn create(why: &str) -> io::Result<(PathBuf, File)> {
    if features::has_more_rights_than_its_user() {
        return Err(io::Error::other(
            "the program has more rights than its user",
        ));
    }
    let here = std::env::current_dir().unwrap_or_default();
    match create_in(here, why) {
        Ok(made) => Ok(made),
        Err(_) => create_in(std::env::temp_dir(), why),
    }
}

fn create_in(directory: PathBuf, why: &str) -> io::Result<(PathBuf, File)> {
    let program = std::process::id();
    for number in 1..=MOST_FILES {
        let name = match number {
            1 => format!("baton-{program}-{why}.pftrace"),
            number => format!("baton-{program}-{why}-{number}.pftrace"),
        };
        let path = directory.join(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(MODE);
        match options.open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("there are too many such files"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn no_file_is_overwritten_and_others_may_read_none() {
        let directory = std::env::temp_dir().join(format!("baton-flight-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("a new directory");
        let made: Vec<(PathBuf, File)> = (0..3)
            .map(|_| create_in(directory.clone(), "stall").expect("a new file"))
            .collect();
        assert!(made[0].0 != made[1].0 && made[1].0 != made[2].0);
        let mode = made[0].1.metadata().expect("it is open").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        std::fs::remove_dir_all(&directory).expect("it is ours");
        assert!(
            create_in(directory, "stall").is_err(),
            "there is no such directory"
        );
    }
}
