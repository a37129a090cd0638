//! The directory of requests and sockets, and who may use it.
//!
//! A program looks in two directories: `baton` in `$XDG_RUNTIME_DIR`, as it was at the program's
//! start, and `/tmp/baton-UID`. A client makes the directory if there is none. Either side uses
//! only a directory that belongs to the program's user and is closed to others. So nobody else can
//! plant one. All files are opened relative to the open directory, so it cannot be exchanged
//! between the check and the use.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat};
use rustix::fs::{fchmod, fchown, fstat, mkdir, open, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Others may not even search the directory.
const CLOSED: RawMode = 0o077;

/// The directories in which the programs of a user look, in this order.
pub fn candidates(user: u32, runtime_directory: Option<&OsStr>) -> Vec<PathBuf> {
    let own = runtime_directory
        .map(Path::new)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("baton"));
    let common = PathBuf::from(format!("/tmp/baton-{user}"));
    own.into_iter().chain([common]).collect()
}

/// An open directory that belongs to a user and is closed to others.
#[derive(Debug)]
pub struct Place {
    directory: OwnedFd,
    path: PathBuf,
    user: u32,
}

impl Place {
    /// Opens the directory at `path`, which must belong to `user`.
    ///
    /// # Errors
    /// `PermissionDenied` with an explanation if it does not, or if others may use it; else the
    /// system's error.
    pub fn open(path: &Path, user: u32) -> io::Result<Place> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = open(path, flags, Mode::empty()).map_err(|error| match error {
            Errno::LOOP | Errno::NOTDIR => denied(format!(
                "a directory expected at {}, got something else",
                path.display()
            )),
            other => other.into(),
        })?;
        let found = fstat(&directory)?;
        if found.st_uid != user {
            return Err(denied(format!(
                "{} belongs to the user {}, not to {user}: somebody else has made it",
                path.display(),
                found.st_uid
            )));
        }
        if found.st_mode & CLOSED != 0 {
            return Err(denied(format!(
                "{} is open to other users (mode {:o}): use chmod 700",
                path.display(),
                found.st_mode & 0o7777
            )));
        }
        Ok(Place {
            directory,
            path: path.to_owned(),
            user,
        })
    }

    /// As [`Place::open`]. Makes the directory if there is none.
    ///
    /// # Errors
    /// As of [`Place::open`].
    pub fn open_or_make(path: &Path, user: u32) -> io::Result<Place> {
        match Place::open(path, user) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            result => return result,
        }
        match mkdir(path, Mode::RWXU) {
            Ok(()) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                let made = open(path, flags | OFlags::CLOEXEC, Mode::empty())?;
                give(&made, user)?;
                fchmod(&made, Mode::RWXU)?;
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        Place::open(path, user)
    }

    /// The path of the directory, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path to a file in it that leads through the open directory, however long `path` is.
    pub fn path_of(&self, name: &str) -> PathBuf {
        let here = PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd()));
        let base = if here.exists() { &here } else { &self.path };
        base.join(name)
    }

    /// Makes a file for the directory's user. Fails if there is one of that name.
    ///
    /// # Errors
    /// The system's.
    pub fn make_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW;
        let file = openat(
            &self.directory,
            name,
            flags | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        )?;
        give(&file, self.user)?;
        Ok(File::from(file))
    }

    /// Opens a file of the directory's user or of root, to append to it; `None` if there is none.
    pub fn open_file(&self, name: &str) -> Option<File> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = openat(
            &self.directory,
            name,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .ok()?;
        is_trusted(&fstat(&file).ok()?, self.user).then(|| File::from(file))
    }

    /// Sets a file's mode to 0600.
    ///
    /// # Errors
    /// The system's.
    pub fn close_to_others(&self, name: &str) -> io::Result<()> {
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::chmodat(
            &self.directory,
            name,
            mode,
            AtFlags::empty(),
        )?)
    }

    /// Removes sockets and requests of programs that are gone. `lives` says whether the program of
    /// a number runs.
    pub fn remove_remains(&self, lives: impl Fn(u32) -> bool) {
        let files = std::fs::read_dir(self.path_of("")).into_iter().flatten();
        for name in files.flatten().map(|file| file.file_name()) {
            let name = name.to_string_lossy();
            let pid = name
                .strip_suffix(".socket")
                .or_else(|| name.strip_suffix(".request"))
                .and_then(|pid| pid.parse().ok());
            if pid.is_some_and(|pid| !lives(pid)) {
                self.remove(&name);
            }
        }
    }

    /// Removes a file, if there is one.
    pub fn remove(&self, name: &str) {
        // What cannot be removed is in a directory that has changed; nobody is served there.
        let _ = unlinkat(&self.directory, name, AtFlags::empty());
    }
}

/// Whether a file is a request: a plain file of the user or of root, that others cannot write.
pub(crate) fn is_trusted(file: &Stat, user: u32) -> bool {
    let is_plain = FileType::from_raw_mode(file.st_mode) == FileType::RegularFile;
    let has_one_name = file.st_nlink == 1;
    is_plain
        && has_one_name
        && (file.st_uid == user || file.st_uid == 0)
        && file.st_mode & 0o022 == 0
}

/// Whether a directory belongs to the user and is closed to others.
pub(crate) fn is_closed_to_others(directory: &Stat, user: u32) -> bool {
    directory.st_uid == user && directory.st_mode & CLOSED == 0
}

/// Gives a file that root has made to the user whose program will open it.
fn give(file: &OwnedFd, user: u32) -> io::Result<()> {
    let found = fstat(file)?;
    if found.st_uid != user {
        fchown(file, Some(Uid::from_raw(user)), None::<Gid>)?;
    }
    Ok(())
}

fn denied(why: String) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn me() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn refusal(path: &Path, user: u32) -> String {
        let error = Place::open_or_make(path, user).expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        error.to_string()
    }

    #[test]
    fn a_directory_is_made_closed_and_found_again() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("baton");
        let place = Place::open_or_make(&path, me()).expect("it is made");
        let mode = fs::metadata(&path).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
        drop(place);
        Place::open(&path, me()).expect("it is found");
    }

    #[test]
    fn a_directory_that_is_open_to_others_is_refused() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("baton");
        fs::create_dir(&path).expect("a directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).expect("its owner may");
        assert!(refusal(&path, me()).contains("open to other users (mode 750)"));
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("baton");
        Place::open_or_make(&path, me()).expect("it is made");
        let error = Place::open(&path, me() + 1).expect_err("it is refused");
        assert!(error.to_string().contains("somebody else has made it"));
    }

    #[test]
    fn a_symbolic_link_is_refused() {
        let home = tempfile::tempdir().expect("a directory");
        let (path, real) = (home.path().join("baton"), home.path().join("real"));
        Place::open_or_make(&real, me()).expect("it is made");
        symlink(&real, &path).expect("a link");
        assert!(refusal(&path, me()).contains("a directory expected"));
    }

    #[test]
    fn a_request_that_is_a_link_or_that_others_may_write_is_not_opened() {
        let home = tempfile::tempdir().expect("a directory");
        let place = Place::open_or_make(&home.path().join("baton"), me()).expect("it is made");
        place.make_file("7.request").expect("it is new");
        assert!(place.make_file("7.request").is_err());
        assert!(place.open_file("7.request").is_some());
        let path = place.path().join("7.request");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).expect("its owner may");
        assert!(place.open_file("7.request").is_none());
        symlink("7.request", place.path().join("8.request")).expect("a link");
        assert!(place.open_file("8.request").is_none());
        place.remove("7.request");
        place.remove("7.request");
        assert!(place.open_file("7.request").is_none());
    }

    #[test]
    fn only_remains_of_programs_that_are_gone_are_removed() {
        let home = tempfile::tempdir().expect("a directory");
        let place = Place::open_or_make(&home.path().join("baton"), me()).expect("it is made");
        for name in ["7.socket", "8.socket", "7.request", "notes", "x.socket"] {
            place.make_file(name).expect("it is new");
        }
        place.remove_remains(|pid| pid == 8);
        let left = fs::read_dir(place.path()).expect("it can be read");
        let mut left: Vec<_> = left
            .map(|file| file.expect("it is there").file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["8.socket", "notes", "x.socket"]);
    }

    #[test]
    fn a_relative_runtime_directory_is_ignored() {
        let common = [PathBuf::from("/tmp/baton-5")];
        assert_eq!(candidates(5, Some(OsStr::new("here"))), common);
        assert_eq!(candidates(5, None), common);
        let own = candidates(5, Some(OsStr::new("/run/user/5")));
        assert_eq!(own[0], Path::new("/run/user/5/baton"));
    }
}
