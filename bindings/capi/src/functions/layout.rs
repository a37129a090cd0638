//! The structures of the header have the same layout in C and in Rust: the compiler of C checks the
//! numbers of Rust.

use super::descriptors::CWatch;
use super::life;
use super::select::CCase;
use super::spawning::CSpawn;
use super::{CLastAccount, CTimeUsed, CWake};
use crate::guest::CTable;
use std::io::Write;
use std::mem::offset_of;
use std::path::Path;
use std::process::{Command, Stdio};

/// Assertions in C: the size of a structure, and the offsets of its members.
macro_rules! assertions {
    ($($rust:ty as $c:literal { $($member:ident),* })*) => {[$(
        format!("_Static_assert(sizeof(struct {}) == {}, \"\");\n", $c, size_of::<$rust>()),
        $(format!(
            "_Static_assert(offsetof(struct {}, {}) == {}, \"\");\n",
            $c, stringify!($member), offset_of!($rust, $member)
        ),)*
    )*].concat()};
}

/// Assertions in C: the values of an enumeration.
macro_rules! values {
    ($($rust:expr => $c:literal),* $(,)?) => {[$(
        format!("_Static_assert({} == {}, \"\");\n", $c, $rust),
    )*].concat()};
}

/// Whether a text compiles after the header.
fn compiles(text: &str) -> Result<(), String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut child = Command::new(compiler)
        .args(["-std=c11", "-fsyntax-only", "-x", "c", "-", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let written = child
        .stdin
        .take()
        .map(|mut input| write!(input, "#include \"baton.h\"\n{text}"));
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    match written {
        Some(Ok(())) if output.status.success() => Ok(()),
        _ => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn structures_are_the_same_in_c_and_in_rust() {
    let all = assertions! {
        CWake as "baton_wake" { reason, case_index, value }
        CSpawn as "baton_spawn_options" {
            size, user_data, stack_size, priority, preemptible, daemon, quiet, suspended, thread,
            by_timer, name, decay
        }
        CTimeUsed as "baton_time_used" { running, cpu }
        CLastAccount as "baton_last_account" { time, priority }
        CTable as "baton_guest" {
            size, run, preempt, switched, retake_policy, request_safepoint, deadlocked, signalled,
            forked, warn_stalled, departed, fingerprint, choose, noted
        }
        CWatch as "baton_watch" {}
        CCase as "baton_case" {}
    };
    assert_eq!(compiles(&all), Ok(()));
    let all = values! {
        life::ENDED => "BATON_STINT_ENDED",
        life::IDLE => "BATON_STINT_IDLE",
        life::TIME_IS_UP => "BATON_STINT_TIME_IS_UP",
        u64::MAX => "BATON_NO_DEADLINE",
    };
    assert_eq!(
        compiles(&all.replace("18446744073709551615", "18446744073709551615u")),
        Ok(())
    );
    let wrong = compiles("_Static_assert(sizeof(struct baton_wake) == 1, \"\");");
    assert!(wrong.is_err(), "the compiler checks nothing");
}
