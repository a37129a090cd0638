//! Words of memory that two programs share: one writes what the other reads, even after the writer
//! was killed.
//!
//! A *file* without a name holds the words. The program that made it passes its descriptor to a
//! child program. Both map it. The mapping lies far from where the system puts others, so that the
//! addresses of all other memory are the same with and without it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::slice;
use std::sync::atomic::AtomicU64;

use crate::platform;

/// Where the mapping is put, if nothing is there. Below it is the program itself; the heap,
/// libraries and stacks lie far above, at the top of 47 bits or more.
const ADDRESS: usize = 1 << 44;

const WORD: usize = size_of::<AtomicU64>();

/// Makes a file of `words` zeros. It gets memory only where it is written. Programs that are
/// executed do not inherit the descriptor, unless `FD_CLOEXEC` is taken from it.
///
/// # Errors
/// When the system refuses.
pub fn new_file(words: usize) -> io::Result<File> {
    let file = platform::file_in_memory()?;
    file.set_len((words * WORD) as u64)?;
    Ok(file)
}

/// Maps the first `words` words of a file from [`new_file`], for as long as the program lives.
///
/// ```
/// use baton_sys::shared_memory::{map, new_file};
/// use std::sync::atomic::Ordering;
///
/// let file = new_file(1000)?;
/// let (one, other) = (map(&file, 1000)?, map(&file, 1000)?);
/// one[999].store(7, Ordering::Relaxed);
/// assert_eq!(other[999].load(Ordering::Relaxed), 7);
/// assert!(map(&file, 1001).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// When the file is shorter, or the system refuses.
pub fn map(file: &File, words: usize) -> io::Result<&'static [AtomicU64]> {
    let size = words * WORD;
    if file.metadata()?.len() < size as u64 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: the address is only a hint, so the mapping replaces no other.
    let address = unsafe {
        libc::mmap(
            ptr::without_provenance_mut(ADDRESS),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | platform::MAP_OF_FILES,
            file.as_raw_fd(),
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is that long and is never removed. Every access, by any program, is an
    // atomic one. Nobody shortens the file: its only users are this function's callers.
    Ok(unsafe { slice::from_raw_parts(address.cast(), words) })
}
