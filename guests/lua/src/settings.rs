//! Parameters, counters and features, by the names that Lua programs see.

use crate::bridge::write_message;
use baton_core::parameters::{DurationParameter, Parameters};
use baton_core::vm::Vm;
use baton_sys::features::features;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::time::Duration;

/// How a parameter is read and set.
enum Access {
    /// Seconds, between the bounds.
    Seconds(fn(&Parameters) -> &DurationParameter, f64, f64),
    /// A whole number, between the bounds.
    Count(fn(&Parameters) -> usize, fn(&Parameters, usize), f64, f64),
    /// On or off.
    Switch(fn(&Parameters) -> bool, fn(&Parameters, bool)),
}

struct Parameter {
    name: &'static CStr,
    access: Access,
}

const MONTH: f64 = 2_592_000.0;

static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: c"slice",
        access: Access::Seconds(|p| &p.slice, 0.000_05, 3600.0),
    },
    Parameter {
        name: c"window",
        access: Access::Seconds(|p| &p.window, 0.000_01, 3600.0),
    },
    Parameter {
        name: c"max_threads",
        access: Access::Count(Parameters::max_threads, Parameters::set_max_threads, 1.0, 30_000.0),
    },
    Parameter {
        name: c"thread_idle",
        access: Access::Seconds(|p| &p.thread_idle, 0.0, MONTH),
    },
    Parameter {
        name: c"stack_size",
        access: Access::Count(
            Parameters::stack_size,
            Parameters::set_stack_size,
            65_536.0,
            4_294_967_296.0,
        ),
    },
    Parameter {
        name: c"warn_blocked",
        access: Access::Seconds(|p| &p.warn_blocked, 0.001, MONTH),
    },
    Parameter {
        name: c"preemptive",
        access: Access::Switch(Parameters::preemptive, Parameters::set_preemptive),
    },
];

fn find(name: &CStr) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name == name)
}

fn get(parameters: &Parameters, access: &Access) -> (c_int, f64) {
    match access {
        Access::Seconds(of, ..) => (1, of(parameters).get().as_secs_f64()),
        Access::Count(of, ..) => (1, of(parameters) as f64),
        Access::Switch(of, _) => (2, f64::from(u8::from(of(parameters)))),
    }
}

fn set(parameters: &Parameters, access: &Access, value: f64) -> Result<(), String> {
    let check = |low: f64, high: f64, unit: &str| {
        if value >= low && value <= high {
            Ok(())
        } else {
            Err(format!(
                "value out of range: from {low} to {high}{unit} expected, got {value}"
            ))
        }
    };
    match access {
        Access::Seconds(of, low, high) => {
            check(*low, *high, " seconds")?;
            of(parameters).set(Duration::from_secs_f64(value));
        }
        Access::Count(_, set, low, high) => {
            check(*low, *high, "")?;
            if value.fract() != 0.0 {
                return Err(format!("whole number expected, got {value}"));
            }
            set(parameters, value as usize);
        }
        Access::Switch(_, set) => set(parameters, value != 0.0),
    }
    Ok(())
}

/// Reads a parameter: 0 unknown, 1 a number, 2 a boolean.
///
/// # Safety
/// `name` is a C string, `value` writable.
// SAFETY: the only definition of this symbol, with the signature of `c/runtime.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_rs_parameter(vm: &Vm, name: *const c_char, value: *mut f64) -> c_int {
    // SAFETY: the caller's condition.
    let Some(parameter) = find(unsafe { CStr::from_ptr(name) }) else {
        return 0;
    };
    let (kind, current) = get(&vm.parameters, &parameter.access);
    // SAFETY: the caller's condition.
    unsafe { value.write(current) };
    kind
}

/// Sets a parameter: 0 unknown, 1 done, 2 refused with a message.
///
/// # Safety
/// `name` is a C string, `message` writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `c/runtime.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_rs_set_parameter(
    vm: &Vm,
    name: *const c_char,
    value: f64,
    message: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller's condition.
    let Some(parameter) = find(unsafe { CStr::from_ptr(name) }) else {
        return 0;
    };
    match set(&vm.parameters, &parameter.access, value) {
        Ok(()) => 1,
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { write_message(message, size, &why) };
            2
        }
    }
}

/// The name of parameter `index`; null after the last.
// SAFETY: the only definition of this symbol, with the signature of `c/runtime.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_rs_parameter_name(index: usize) -> *const c_char {
    PARAMETERS
        .get(index)
        .map_or(ptr::null(), |parameter| parameter.name.as_ptr())
}

fn read_environment(parameters: &Parameters) -> Result<(), String> {
    for parameter in PARAMETERS {
        let name = parameter.name.to_string_lossy();
        let variable = format!("BATON_{}", name.to_uppercase());
        let Some(text) = std::env::var_os(&variable) else {
            continue;
        };
        let text = text.to_string_lossy();
        let value = match (&parameter.access, text.trim()) {
            (Access::Switch(..), "true" | "1") => 1.0,
            (Access::Switch(..), "false" | "0") => 0.0,
            (Access::Switch(..), _) => return Err(format!("{variable}: true or false expected, got '{text}'")),
            (_, number) => number
                .parse()
                .map_err(|_| format!("{variable}: number expected, got '{text}'"))?,
        };
        set(parameters, &parameter.access, value).map_err(|why| format!("{variable}: {why}"))?;
    }
    Ok(())
}

/// Sets the parameters that the environment names; nonzero and a message if one of them is wrong.
///
/// # Safety
/// `message` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `c/runtime.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_rs_read_environment(vm: &Vm, message: *mut c_char, size: usize) -> c_int {
    match read_environment(&vm.parameters) {
        Ok(()) => 0,
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { write_message(message, size, &why) };
            1
        }
    }
}

/// The executor's and the kernel's counters, in the order of their names below.
fn counters(vm: &Vm) -> [(&'static CStr, u64); 30] {
    let c = &vm.counters;
    let (k, live, runnable, sleeping, foreign, aside) = vm.kernel(|kernel| {
        let kept = (
            kernel.live_count(),
            kernel.runnable_count(),
            kernel.sleeping_count(),
            kernel.foreign_count(),
        );
        (
            *kernel.counters(),
            kept.0,
            kept.1,
            kept.2,
            kept.3,
            kernel.kept_aside_count(),
        )
    });
    let stacks = vm.stack_stats();
    [
        (c"switches", k.switches),
        (c"yields", k.yields),
        (c"preemptions_by_urgency", k.preemptions_by_urgency),
        (c"preemptions_by_slice", k.preemptions_by_slice),
        (c"wakes", k.wakes),
        (c"timeouts", k.timeouts),
        (c"kills", k.kills),
        (c"spawned", k.spawned),
        (c"ended", k.ended),
        (c"timers_fired", k.timers_fired),
        (c"timers_skipped", k.timers_skipped),
        (c"pinned_waits", k.kept_aside),
        (c"live", live as u64),
        (c"runnable", runnable as u64),
        (c"sleeping", sleeping as u64),
        (c"foreign", foreign as u64),
        (c"waiting_for_thread", aside as u64),
        (c"beats", c.beats.get()),
        (c"signals", c.signals.get()),
        (c"retakes", c.retakes.get()),
        (c"false_retakes", c.false_retakes.get()),
        (c"exclusive_calls", c.exclusive_calls.get()),
        (c"thread_bound_hits", c.thread_bound_hits.get()),
        (c"idle_waits", c.idle_waits.get()),
        (c"handovers", c.handovers.get()),
        (c"threads", vm.threads() as u64),
        (c"threads_started", c.threads_started.get()),
        (c"threads_retired", c.threads_retired.get()),
        (c"stacks_in_use", stacks.in_use as u64),
        (c"stacks_free", stacks.free as u64),
    ]
}

/// Counter `index`; null after the last.
///
/// # Safety
/// `value` is writable.
// SAFETY: the only definition of this symbol, with the signature of `c/runtime.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_rs_counter(vm: &Vm, index: usize, value: *mut u64) -> *const c_char {
    let Some((name, count)) = counters(vm).get(index).copied() else {
        return ptr::null();
    };
    // SAFETY: the caller's condition.
    unsafe { value.write(count) };
    name.as_ptr()
}

fn named(text: &str) -> *const c_char {
    match text {
        "madvise" => c"madvise",
        "mprotect" => c"mprotect",
        "epoll_pwait2" => c"epoll_pwait2",
        "timerfd" => c"timerfd",
        "CLOCK_MONOTONIC" => c"CLOCK_MONOTONIC",
        "x86_64" => c"x86_64",
        "aarch64" => c"aarch64",
        _ => c"unknown",
    }
    .as_ptr()
}

/// Feature `index`: a text, or a flag where `text` is set to null. Null after the last.
///
/// # Safety
/// `text` and `flag` are writable.
// SAFETY: the only definition of this symbol, with the signature of `c/runtime.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_rs_feature(index: usize, text: *mut *const c_char, flag: *mut c_int) -> *const c_char {
    let offered = features();
    let table: [(&'static CStr, Result<bool, &str>); 6] = [
        (c"membarrier", Ok(offered.membarrier)),
        (c"guard_pages", Err(offered.guard_pages)),
        (c"poller", Err(offered.poller)),
        (c"clock", Err(offered.clock)),
        (c"architecture", Err(offered.architecture)),
        (c"preemption", Ok(true)),
    ];
    let Some((name, value)) = table.get(index) else {
        return ptr::null();
    };
    // SAFETY: the caller's condition.
    unsafe {
        match value {
            Ok(on) => {
                text.write(ptr::null());
                flag.write((*on).into());
            }
            Err(word) => text.write(named(word)),
        }
    }
    name.as_ptr()
}
