//! What is learned of functions, for the C half: it keeps a policy in each function's own memory.

use std::ffi::c_int;
use std::time::Duration;

use baton_ffi::learning::{Choice, Class, Policy};

/// Words of memory that C has for a policy: `FFI_POLICY_WORDS`.
const WORDS: usize = 4;
const _: () = assert!(
    size_of::<Policy>() <= WORDS * size_of::<u64>() && align_of::<Policy>() <= align_of::<u64>()
);

/// Begins: 0 to learn, 1 declared short, 2 declared long. Answers how many of the next calls stay
/// without being asked about.
///
/// # Safety
/// `policy` has room for `WORDS` words.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_policy_begin(policy: *mut Policy, class: c_int) -> u32 {
    let begun = match class {
        1 => Policy::Declared(Class::Short),
        2 => Policy::Declared(Class::Long),
        _ => Policy::default(),
    };
    // SAFETY: the caller's condition, and the assertion above.
    unsafe { policy.write(begun) };
    begun.calls_to_skip()
}

/// What to do with the next call, after so many that nobody asked about: 0 stay, and `skip` is as
/// in `baton_ffi_policy_begin`; 1 stay and measure; 2 move, and measure; 3 stay and measure, but it
/// may well last.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_policy_choose(policy: &mut Policy, skipped: u32, skip: &mut u32) -> c_int {
    policy.skipped(skipped);
    match policy.choose() {
        Choice::Stay => {
            *skip = policy.calls_to_skip();
            0
        }
        Choice::StayAndMeasure => 1,
        Choice::Move => 2,
        Choice::Try => 3,
    }
}

/// The call took so many nanoseconds, where calls beyond `window` are retaken. Answers as
/// `baton_ffi_policy_begin`.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_policy_measured(policy: &mut Policy, duration: u64, window: u64) -> u32 {
    policy.measured(Duration::from_nanos(duration), Duration::from_nanos(window));
    policy.calls_to_skip()
}

/// A call that nobody asked about, or that was to stay, was retaken. Answers as
/// `baton_ffi_policy_begin`.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_policy_retaken(policy: &mut Policy, skipped: u32) -> u32 {
    policy.skipped(skipped);
    policy.retaken();
    policy.calls_to_skip()
}
