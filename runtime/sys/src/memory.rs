//! Memory mappings: the few calls that stacks need, with page-sized arithmetic in one place.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::platform;

/// Bytes in a page of memory: 4 KiB on x86-64; 4, 16 or 64 KiB on aarch64.
pub(crate) fn page_size() -> usize {
    /// Zero until it was read. Relaxed, as every thread would write the same value.
    static PAGE_SIZE: AtomicUsize = AtomicUsize::new(0);
    let known = PAGE_SIZE.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: sysconf takes an integer and touches no memory.
    let asked = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let size = usize::try_from(asked)
        .ok()
        .filter(|size| size.is_power_of_two())
        .unwrap_or(4096);
    // Relaxed: as above.
    PAGE_SIZE.store(size, Ordering::Relaxed);
    size
}

/// Maps `size` bytes (a multiple of the page size) of zeroed memory. They get physical memory only
/// when touched. Huge pages are off, as a suspended process would waste all but 4 KiB of one.
pub(crate) fn map(size: usize) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | platform::MAP_OF_STACKS;
    // SAFETY: a new anonymous mapping at an address that the kernel chooses overlaps nothing.
    let address = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range was just mapped.
    unsafe { platform::forbid_huge_pages(address, size) };
    NonNull::new(address.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// Unmaps a whole mapping, or pages of one, or of neighbours.
///
/// # Safety
///
/// `[start, start + size)` must be pages that [`map`] returned and that are no longer in use.
pub(crate) unsafe fn unmap(start: NonNull<u8>, size: usize) {
    // SAFETY: the caller answers for the range. Failure (the map limit, when a mapping is split)
    // leaks it, which does no harm.
    unsafe { libc::munmap(start.as_ptr().cast(), size) };
}

/// Makes `size` bytes from `start` inaccessible by `mprotect`, which splits the kernel's mapping in
/// two.
///
/// # Safety
///
/// The range must be pages that [`map`] returned and that are not in use.
pub(crate) unsafe fn forbid_access(start: NonNull<u8>, size: usize) -> io::Result<()> {
    // SAFETY: the caller answers for the range; protection only takes access away.
    let result = unsafe { libc::mprotect(start.as_ptr().cast(), size, libc::PROT_NONE) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// include/uapi/asm-generic/mman-common.h; the crate `libc` does not define it.
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// Makes `size` bytes from `start` fault on access by markers in the page table (Linux 6.13),
/// without a further mapping.
///
/// # Errors
///
/// `EINVAL` from kernels that do not know the advice.
///
/// # Safety
///
/// The range must be pages that [`map`] returned and that are not in use.
pub(crate) unsafe fn install_guard(start: NonNull<u8>, size: usize) -> io::Result<()> {
    // SAFETY: the caller answers for the range, whose contents are lost.
    let result = unsafe { libc::madvise(start.as_ptr().cast(), size, MADV_GUARD_INSTALL) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// include/uapi/asm-generic/mman-common.h, as above.
const MADV_GUARD_REMOVE: libc::c_int = 103;

/// Undoes [`install_guard`]. The bytes read as zero afterwards.
///
/// # Safety
///
/// The range must be pages of a guard that [`install_guard`] made.
pub(crate) unsafe fn remove_guard(start: NonNull<u8>, size: usize) -> io::Result<()> {
    // SAFETY: the caller answers for the range.
    let result = unsafe { libc::madvise(start.as_ptr().cast(), size, MADV_GUARD_REMOVE) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Undoes [`forbid_access`].
///
/// # Safety
///
/// The range must be pages of which [`forbid_access`] took the access away.
pub(crate) unsafe fn permit_access(start: NonNull<u8>, size: usize) -> io::Result<()> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the caller answers for the range, which had this access before.
    let result = unsafe { libc::mprotect(start.as_ptr().cast(), size, access) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whole pages of the C library's heap: it may have some when the system refuses a mapping.
pub(crate) fn allocate_pages(size: usize) -> Option<NonNull<u8>> {
    let mut start = ptr::null_mut();
    // SAFETY: the address is written to this frame; the page size is a power of two.
    let refusal = unsafe { libc::posix_memalign(&raw mut start, page_size(), size) };
    NonNull::new(start.cast()).filter(|_| refusal == 0)
}

/// Gives pages back to the heap.
///
/// # Safety
///
/// They came from [`allocate_pages`], are not in use, and can be read and written.
pub(crate) unsafe fn free_pages(start: NonNull<u8>) {
    // SAFETY: the caller's condition.
    unsafe { libc::free(start.as_ptr().cast()) };
}

/// Whether the byte at `address` can be read. The kernel reads it, by write(2) to a pipe, so a byte
/// that cannot be read does no harm.
///
/// # Errors
///
/// The system has no pipe for this.
pub(crate) fn is_readable(address: NonNull<u8>) -> io::Result<bool> {
    let (_reader, writer) = io::pipe()?;
    // SAFETY: the kernel checks the address, and reads at most one byte. The pipe has room for it.
    let written = unsafe { libc::write(writer.as_raw_fd(), address.as_ptr().cast(), 1) };
    if written >= 0 {
        return Ok(written == 1);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EFAULT) => Ok(false),
        _ => Err(error),
    }
}

/// The most guards that one call of [`install_guards`] makes.
pub(crate) const GUARDS_AT_ONCE: usize = 16;

/// As [`install_guard`], for `count` ranges of `size` bytes, each `stride` bytes after the one
/// before, in one system call (Linux 6.15). Returns how many were made, from the first on. On older
/// kernels that is none.
///
/// # Safety
///
/// All ranges must be pages that [`map`] returned and that are not in use.
pub(crate) unsafe fn install_guards(
    start: NonNull<u8>,
    size: usize,
    stride: usize,
    count: usize,
) -> usize {
    let count = count.min(GUARDS_AT_ONCE);
    let mut ranges = [libc::iovec {
        iov_base: ptr::null_mut(),
        iov_len: size,
    }; GUARDS_AT_ONCE];
    for (number, range) in ranges[..count].iter_mut().enumerate() {
        range.iov_base = start.as_ptr().wrapping_add(number * stride).cast();
    }
    // SAFETY: the caller answers for the ranges, whose contents are lost.
    let bytes = unsafe { platform::advise_on_all(&ranges[..count], MADV_GUARD_INSTALL) };
    // A negative result is an error. A short one ended within a range, which is then made again.
    usize::try_from(bytes).unwrap_or(0) / size
}

/// Gives the memory of `size` bytes from `start` back to the system; they read as zero afterwards.
/// Guards stay.
///
/// # Safety
///
/// The range must be pages that [`map`] returned, and their contents must not be needed.
pub(crate) unsafe fn discard(start: NonNull<u8>, size: usize) {
    // SAFETY: the caller answers for the contents. Failure leaves the memory in use, which is only
    // a waste.
    unsafe { libc::madvise(start.as_ptr().cast(), size, libc::MADV_DONTNEED) };
}

/// The distance from `start` to the first page of `size` bytes that has physical memory; `size` if
/// there is none, or if the kernel does not say.
pub(crate) fn untouched_prefix(start: NonNull<u8>, size: usize) -> usize {
    const PAGES_PER_CALL: usize = 512;
    let page = page_size();
    let mut residency = [0_u8; PAGES_PER_CALL];
    let mut offset = 0;
    while offset < size {
        let pages = ((size - offset) / page).clamp(1, PAGES_PER_CALL);
        let address = start.as_ptr().wrapping_add(offset).cast();
        // SAFETY: mincore reads no memory of the range, and fails when some of it is not mapped; it
        // writes one byte per page to `residency`, which has room for `PAGES_PER_CALL`.
        let result = unsafe { libc::mincore(address, pages * page, residency.as_mut_ptr().cast()) };
        if result != 0 {
            return size;
        }
        if let Some(first) = residency[..pages].iter().position(|flags| flags & 1 != 0) {
            return offset + first * page;
        }
        offset += pages * page;
    }
    size
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_readable_until_access_is_forbidden() {
        let size = page_size();
        let page = map(size).expect("there is memory");
        assert!(is_readable(page).expect("there is a pipe"));
        // SAFETY: the page was mapped just now, and nothing uses it.
        unsafe { forbid_access(page, size) }.expect("a mapping can be protected");
        assert!(!is_readable(page).expect("there is a pipe"));
        // SAFETY: as above.
        unsafe { unmap(page, size) };
    }
}
