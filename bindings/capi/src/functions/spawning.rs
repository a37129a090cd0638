//! Making processes, and the options for that.

use super::{gate, threads, write_message};
use baton_core::sched::{Priority, ProcessId, SpawnOptions};
use baton_core::vm::{Inside, Spawned, Vm};
use std::ffi::{CStr, c_char, c_int};
use std::mem::offset_of;

/// `struct baton_spawn_options`.
#[repr(C)]
pub(super) struct CSpawn {
    pub(super) size: usize,
    pub(super) user_data: usize,
    pub(super) stack_size: usize,
    pub(super) priority: c_int,
    pub(super) preemptible: c_int,
    pub(super) daemon: c_int,
    pub(super) quiet: c_int,
    pub(super) suspended: c_int,
    pub(super) thread: [u8; threads::NAME_SIZE],
    pub(super) by_timer: c_int,
    pub(super) name: *const c_char,
    pub(super) decay: c_int,
}

/// The size of the first options that there were, up to the end of `by_timer`.
const LEAST: usize = offset_of!(CSpawn, name);

/// The longest name of a process, in bytes: `BATON_PROCESS_NAME`.
const NAME_SIZE: usize = 63;

impl CSpawn {
    /// A copy of the options of a guest, which may be those of an older header, or of a later one,
    /// which have more after these.
    ///
    /// # Safety
    /// `options` is readable for as many bytes as its first member says.
    pub(super) unsafe fn read(options: *const CSpawn) -> Result<CSpawn, String> {
        // SAFETY: the caller's condition.
        let size = unsafe { options.cast::<usize>().read() };
        if size < LEAST {
            return Err(format!(
                "options of {size} bytes; expected `size` to be sizeof(struct baton_spawn_options)"
            ));
        }
        if size >= size_of::<CSpawn>() {
            // SAFETY: the caller's condition.
            return Ok(unsafe { options.read() });
        }
        // SAFETY: all zero are options.
        let mut copy: CSpawn = unsafe { std::mem::zeroed() };
        // SAFETY: both are as large as that, by the caller's condition.
        unsafe {
            std::ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut copy).cast::<u8>(), size);
        }
        Ok(copy)
    }

    /// The name of the process, cut to fit; empty if it has none.
    ///
    /// # Safety
    /// The member is null or a string that ends with a zero byte.
    pub(super) unsafe fn name(&self) -> String {
        if self.name.is_null() {
            return String::new();
        }
        // SAFETY: the caller's condition.
        let name = unsafe { CStr::from_ptr(self.name) }.to_string_lossy();
        name[..name.floor_char_boundary(NAME_SIZE)].to_owned()
    }
}

/// Names a process. Few have a name in their options: Lua knows the names of its own.
///
/// # Safety
/// As for [`CSpawn::name`].
#[cold]
unsafe fn name_process(vm: &Inside<'_>, pid: ProcessId, asked: &CSpawn) {
    // SAFETY: the caller's condition.
    vm.name_process(pid, &unsafe { asked.name() });
}

/// What the scheduler is told of a process. Its priority is `inherited` unless another one is
/// asked for.
pub(super) fn asked_options(
    asked: &CSpawn,
    inherited: impl FnOnce() -> Priority,
) -> (SpawnOptions, Option<usize>, Spawned) {
    let options = SpawnOptions {
        priority: u8::try_from(asked.priority)
            .ok()
            .and_then(Priority::new)
            .unwrap_or_else(inherited),
        preemptible: asked.preemptible != 0,
        decay: asked.decay != 0,
        daemon: asked.daemon != 0,
        quiet: asked.quiet != 0,
        suspended: asked.suspended != 0,
        pin: None,
        user_data: asked.user_data,
    };
    let stack_size = (asked.stack_size > 0).then_some(asked.stack_size);
    let when = if asked.by_timer != 0 {
        Spawned::ByTimer
    } else {
        Spawned::Now
    };
    (options, stack_size, when)
}

/// Makes a process. Returns 0 and writes a message if it cannot.
///
/// # Safety
/// `options` is readable as its first member says, `message` writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_spawn(
    vm: &Vm,
    options: *const CSpawn,
    message: *mut c_char,
    size: usize,
) -> u64 {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { gate::inside(vm, "baton_spawn") };
    // SAFETY: the caller's condition.
    let asked = unsafe { CSpawn::read(options) };
    let spawned = asked.and_then(|asked| {
        let (options, stack_size, when) = asked_options(&asked, || {
            vm.sched(|sched| {
                sched
                    .current()
                    .map_or(Priority::DEFAULT, |pid| sched.priority(pid))
            })
        });
        let pid = threads::spawn(vm, &asked.thread, options, stack_size, when)?;
        if !asked.name.is_null() {
            // SAFETY: the caller's condition.
            unsafe { name_process(vm, pid, &asked) };
        }
        Ok(pid)
    });
    match spawned {
        Ok(pid) => pid.to_bits(),
        Err(error) => {
            // SAFETY: the caller's condition.
            unsafe { write_message(message, size, &error) };
            0
        }
    }
}
