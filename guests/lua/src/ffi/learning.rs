//! Learning how long functions take, for the C half, which keeps a policy for each function.

use std::ffi::c_int;
use std::time::Duration;

use baton_ffi::learning::{Choice, Class, Policy};

/// The size of a policy in the C half, in words: `FFI_POLICY_WORDS`.
const WORDS: usize = 4;
const _: () = assert!(
    size_of::<Policy>() <= WORDS * size_of::<u64>() && align_of::<Policy>() <= align_of::<u64>()
);

/// Begins a policy: 0 to learn, 1 declared short, 2 declared long. Returns how many of the next
/// calls skip the policy.
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

/// Chooses how to make the next call, after `skipped` calls that skipped the policy. Inside the VM.
///
/// | result | the call |
/// |---|---|
/// | 0 | stays; `skip` becomes the number of calls that may skip the policy |
/// | 1 | stays and is measured |
/// | 2 | is offloaded and measured |
/// | 3 | stays and is measured, but is likely to take long |
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

/// Learns that a call took this many nanoseconds, where calls beyond `window` are retaken. Returns
/// the same as `baton_ffi_policy_begin`.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_policy_measured(policy: &mut Policy, duration: u64, window: u64) -> u32 {
    policy.measured(Duration::from_nanos(duration), Duration::from_nanos(window));
    policy.calls_to_skip()
}

/// Learns that a call that skipped the policy or was to stay was retaken. Returns the same as
/// `baton_ffi_policy_begin`.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_policy_retaken(policy: &mut Policy, skipped: u32) -> u32 {
    policy.skipped(skipped);
    policy.retaken();
    policy.calls_to_skip()
}
