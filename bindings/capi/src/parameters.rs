//! Parameters, by their names.

use crate::functions::write_message;
use baton_core::parameters::{DurationParameter, Parameters};
use baton_core::spin::PolicyName;
use baton_core::vm::{Inside, Vm};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::time::Duration;

/// How a parameter is read and set.
enum Access {
    /// Seconds within the bounds.
    Seconds(fn(&Parameters) -> &DurationParameter, f64, f64),
    /// Seconds between the bounds, or zero, which has a meaning of its own.
    Period(fn(&Parameters) -> &DurationParameter, f64, f64),
    /// A whole number within the bounds.
    Count(fn(&Parameters) -> usize, fn(&Parameters, usize), f64, f64),
    /// A fraction from 0 to 1.
    Share(fn(&Parameters) -> f64, fn(&Parameters, f64)),
    /// On or off.
    Switch(fn(&Parameters) -> bool, fn(&Parameters, bool)),
    /// One of two words. The second one means on.
    Choice(
        [&'static CStr; 2],
        fn(&Parameters) -> bool,
        fn(&Parameters, bool),
    ),
    /// The policy for spinning.
    Policy(fn(&Parameters) -> PolicyName, fn(&Parameters, PolicyName)),
}

/// The value of a parameter.
enum Value<'a> {
    Number(f64),
    Whole(f64),
    Switch(bool),
    Word(&'a CStr),
}

const NUMBER: c_int = 1;
const WHOLE: c_int = 2;
const SWITCH: c_int = 3;
const WORD: c_int = 4;

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
        name: c"beat",
        access: Access::Period(|p| &p.beat, 0.000_05, 3600.0),
    },
    Parameter {
        name: c"window",
        access: Access::Period(|p| &p.window, 0.000_01, 3600.0),
    },
    Parameter {
        name: c"spin",
        access: Access::Policy(Parameters::spin, Parameters::set_spin),
    },
    Parameter {
        name: c"busy_loop_for",
        access: Access::Seconds(|p| &p.busy_loop_for, 0.0, 1.0),
    },
    Parameter {
        name: c"spin_budget",
        access: Access::Share(Parameters::spin_budget, Parameters::set_spin_budget),
    },
    Parameter {
        name: c"timer_slack",
        access: Access::Seconds(|p| &p.timer_slack, 0.0, 3600.0),
    },
    Parameter {
        name: c"max_threads",
        access: Access::Count(
            Parameters::max_threads,
            Parameters::set_max_threads,
            1.0,
            30_000.0,
        ),
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
        name: c"shield",
        access: Access::Seconds(|p| &p.shield, 0.0, 3600.0),
    },
    Parameter {
        name: c"flight",
        access: Access::Period(|p| &p.flight, 0.1, 3600.0),
    },
    Parameter {
        name: c"preemptive",
        access: Access::Switch(Parameters::preemptive, Parameters::set_preemptive),
    },
    Parameter {
        name: c"deadlock",
        access: Access::Choice(
            [c"warn", c"raise"],
            Parameters::refuses_deadlock,
            Parameters::set_refuses_deadlock,
        ),
    },
];

fn find(name: &CStr) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name == name)
}

const fn word(policy: PolicyName) -> &'static CStr {
    match policy {
        PolicyName::Off => c"off",
        PolicyName::Ema => c"ema",
        PolicyName::Learned => c"learned",
    }
}

fn get(parameters: &Parameters, access: &Access) -> Value<'static> {
    match access {
        Access::Seconds(of, ..) | Access::Period(of, ..) => {
            Value::Number(of(parameters).get().as_secs_f64())
        }
        Access::Count(of, ..) => Value::Whole(of(parameters) as f64),
        Access::Share(of, _) => Value::Number(of(parameters)),
        Access::Switch(of, _) => Value::Switch(of(parameters)),
        Access::Choice(words, of, _) => Value::Word(words[usize::from(of(parameters))]),
        Access::Policy(of, _) => Value::Word(word(of(parameters))),
    }
}

fn set(parameters: &Parameters, access: &Access, value: &Value<'_>) -> Result<(), String> {
    match (access, value) {
        (Access::Seconds(of, low, high), Value::Number(value)) => {
            check(*value, *low, *high, " seconds")?;
            of(parameters).set(Duration::from_secs_f64(*value));
        }
        (Access::Period(of, low, high), Value::Number(value)) => {
            if *value != 0.0 {
                check(*value, *low, *high, " seconds, or 0")?;
            }
            of(parameters).set(Duration::from_secs_f64(*value));
        }
        (Access::Count(_, set, low, high), Value::Number(value)) => {
            check(*value, *low, *high, "")?;
            if value.fract() != 0.0 {
                return Err(format!("whole number expected, got {value}"));
            }
            set(parameters, *value as usize);
        }
        (Access::Share(_, set), Value::Number(value)) => {
            check(*value, 0.0, 1.0, "")?;
            set(parameters, *value);
        }
        (Access::Switch(_, set), Value::Switch(on)) => set(parameters, *on),
        (Access::Choice(words, _, set), Value::Word(text)) => {
            set(parameters, choice(*words, text)?)
        }
        (Access::Policy(_, set), Value::Word(text)) => set(parameters, policy(text)?),
        _ => return Err(format!("{} expected", kind(access))),
    }
    Ok(())
}

/// Checks a value's range. NaN is out of every range.
fn check(value: f64, low: f64, high: f64, unit: &str) -> Result<(), String> {
    if value >= low && value <= high {
        return Ok(());
    }
    Err(format!(
        "value out of range: from {low} to {high}{unit} expected, got {value}"
    ))
}

fn policy(text: &CStr) -> Result<PolicyName, String> {
    let named = PolicyName::ALL
        .into_iter()
        .find(|&policy| word(policy) == text);
    named.ok_or_else(|| {
        format!(
            "'off', 'ema' or 'learned' expected, got '{}'",
            text.to_string_lossy()
        )
    })
}

/// Whether a text is the second of two words.
fn choice(words: [&CStr; 2], text: &CStr) -> Result<bool, String> {
    let [first, second] = words.map(CStr::to_string_lossy);
    let place = words.iter().position(|&word| word == text);
    let got = text.to_string_lossy();
    place
        .map(|place| place == 1)
        .ok_or_else(|| format!("'{first}' or '{second}' expected, got '{got}'"))
}

/// The type of a parameter.
const fn kind(access: &Access) -> &'static str {
    match access {
        Access::Seconds(..) | Access::Period(..) | Access::Count(..) | Access::Share(..) => {
            "number"
        }
        Access::Switch(..) => "boolean",
        Access::Policy(..) | Access::Choice(..) => "string",
    }
}

/// Reads a parameter and returns its kind. A number, a whole number or a boolean is in `value`, a
/// word in `text`. Returns 0 for an unknown parameter.
///
/// # Safety
/// `name` is a C string, `value` and `text` are writable.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_parameter(
    vm: &Vm,
    name: *const c_char,
    value: *mut f64,
    text: *mut *const c_char,
) -> c_int {
    // SAFETY: the caller's condition.
    let Some(parameter) = find(unsafe { CStr::from_ptr(name) }) else {
        return 0;
    };
    let (kind, number, word) = match get(&vm.parameters, &parameter.access) {
        Value::Number(number) => (NUMBER, number, ptr::null()),
        Value::Whole(number) => (WHOLE, number, ptr::null()),
        Value::Switch(on) => (SWITCH, f64::from(u8::from(on)), ptr::null()),
        Value::Word(word) => (WORD, 0.0, word.as_ptr()),
    };
    // SAFETY: the caller's condition.
    unsafe {
        value.write(number);
        text.write(word);
    }
    kind
}

/// Sets a parameter to the word in `text`, or to `value` if `text` is null. Returns 1, or 0 and a
/// message.
///
/// # Safety
/// `name` is a C string, `text` too if it is not null, `message` writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_set_parameter(
    vm: &Vm,
    name: *const c_char,
    value: f64,
    text: *const c_char,
    message: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { Inside::assume(vm) };
    // SAFETY: the caller's condition.
    let parameter = find(unsafe { CStr::from_ptr(name) });
    let done = parameter
        .ok_or_else(|| "unknown parameter".to_owned())
        .and_then(|parameter| {
            let value = match parameter.access {
                // SAFETY: the caller's condition.
                _ if !text.is_null() => Value::Word(unsafe { CStr::from_ptr(text) }),
                Access::Switch(..) => Value::Switch(value != 0.0),
                _ => Value::Number(value),
            };
            set(&vm.parameters, &parameter.access, &value)
        });
    match done {
        Ok(()) => {
            vm.parameters_changed();
            1
        }
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { write_message(message, size, &why) };
            0
        }
    }
}

/// The name of parameter `index`; null after the last.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_parameter_name(index: usize) -> *const c_char {
    PARAMETERS
        .get(index)
        .map_or(ptr::null(), |parameter| parameter.name.as_ptr())
}

/// Returns whether anything was set.
fn read_environment(parameters: &Parameters) -> Result<bool, String> {
    let mut is_set = false;
    for parameter in PARAMETERS {
        let name = parameter.name.to_string_lossy();
        let variable = format!("BATON_{}", name.to_uppercase());
        let Some(text) = std::env::var_os(&variable) else {
            continue;
        };
        let text = text.to_string_lossy();
        set_from_text(parameters, &parameter.access, &text)
            .map_err(|why| format!("{variable}: {why}"))?;
        is_set = true;
    }
    Ok(is_set)
}

fn set_from_text(parameters: &Parameters, access: &Access, text: &str) -> Result<(), String> {
    let trimmed = text.trim();
    match access {
        Access::Switch(..) => {
            let on = match trimmed {
                "true" | "1" => true,
                "false" | "0" => false,
                _ => return Err(format!("true or false expected, got '{text}'")),
            };
            set(parameters, access, &Value::Switch(on))
        }
        Access::Policy(..) | Access::Choice(..) => {
            let word = CString::new(trimmed).unwrap_or_default();
            set(parameters, access, &Value::Word(&word))
        }
        Access::Seconds(..) | Access::Period(..) | Access::Count(..) | Access::Share(..) => {
            let number = trimmed
                .parse()
                .map_err(|_| format!("number expected, got '{text}'"))?;
            set(parameters, access, &Value::Number(number))
        }
    }
}

/// All parameters, and their values as texts that [`set_by_name`] takes.
pub fn list_values(parameters: &Parameters) -> Vec<(String, String)> {
    let text = |parameter: &Parameter| match get(parameters, &parameter.access) {
        Value::Number(number) | Value::Whole(number) => number.to_string(),
        Value::Switch(on) => on.to_string(),
        Value::Word(word) => word.to_string_lossy().into_owned(),
    };
    PARAMETERS
        .iter()
        .map(|parameter| {
            (
                parameter.name.to_string_lossy().into_owned(),
                text(parameter),
            )
        })
        .collect()
}

/// Sets a parameter. On any thread.
///
/// # Errors
/// What was expected and what came.
pub fn set_by_name(parameters: &Parameters, name: &str, value: &str) -> Result<(), String> {
    let named = |parameter: &&Parameter| parameter.name.to_bytes() == name.as_bytes();
    let parameter = PARAMETERS.iter().find(named).ok_or_else(|| {
        let names: Vec<_> = PARAMETERS
            .iter()
            .map(|parameter| parameter.name.to_string_lossy())
            .collect();
        format!(
            "unknown parameter '{name}': one of {} expected",
            names.join(", ")
        )
    })?;
    set_from_text(parameters, &parameter.access, value).map_err(|why| format!("{name}: {why}"))
}

/// Sets parameters from the environment. Returns nonzero and writes a message if a value is wrong.
///
/// # Safety
/// `message` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_read_environment(vm: &Vm, message: *mut c_char, size: usize) -> c_int {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { Inside::assume(vm) };
    match read_environment(&vm.parameters) {
        Ok(is_set) => {
            if is_set {
                vm.parameters_changed();
            }
            0
        }
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { write_message(message, size, &why) };
            1
        }
    }
}
