//! Tests windows through the ffi, on an X server of the test's own. One uses SDL2, a library that
//! must run on one thread; a picture of it is kept. One uses Xlib; its program must be as idle as
//! one without a window.

mod harness;

use baton_harness::Screen;
use harness::baton;
use harness::skip::skip;
use std::path::{Path, PathBuf};

/// Starts an X server. If a program or library for a window is missing, returns none and reports
/// that.
fn screen() -> Option<Screen> {
    let what = "a window of SDL2";
    let documents =
        ["libsdl2-2.0-0", "libxtst6"].map(|name| Path::new("/usr/share/doc").join(name));
    if !documents.iter().all(|path| path.exists()) {
        skip(what, "install libsdl2-2.0-0 and libxtst6");
        return None;
    }
    Screen::start(what)
}

/// Returns where the picture of a test is kept for people to look at.
fn picture_of(test: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("window-{test}.ppm"))
}

/// Returns the colour of a pixel in a picture of 320 by 240 in the format PPM.
fn pixel(picture: &[u8], x: usize, y: usize) -> u32 {
    let pixels = picture
        .strip_prefix(b"P6 320 240 255\n")
        .expect("a picture of the window's size");
    let [red, green, blue] = pixels[(y * 320 + x) * 3..][..3] else {
        panic!("the picture is cut");
    };
    u32::from_be_bytes([0, red, green, blue])
}

fn show_a_window_on(thread: &str) {
    let Some(screen) = screen() else {
        return;
    };
    let path = picture_of(thread);
    let outcome = baton()
        .env("DISPLAY", screen.display())
        .env("SDL_VIDEODRIVER", "x11")
        .script("ffi/window.lua")
        .arg(thread)
        .arg(&path)
        .run();
    outcome
        .succeeds()
        .wrote("stripe 1; stripe 2; stripe 3; stripe 4; button 1 at 100,50; key 4; stripe 1\n")
        .quietly();
    let picture = std::fs::read(&path).expect("the picture is kept");
    for (stripe, colour) in [0xff_0000, 0x00_ff00, 0x00_00ff, 0xff_ff00]
        .into_iter()
        .enumerate()
    {
        for (x, y) in [(0, 0), (79, 0), (40, 120), (0, 239), (79, 239)] {
            assert_eq!(
                pixel(&picture, stripe * 80 + x, y),
                colour,
                "at {x}, {y} of stripe {stripe}"
            );
        }
    }
}

#[test]
fn a_window_in_a_process_bound_to_main_is_drawn_and_handles_events_while_others_run() {
    show_a_window_on("main");
}

#[test]
fn a_window_in_a_process_bound_to_a_thread_of_its_own_is_drawn_and_handles_events_while_others_run()
{
    show_a_window_on("screen");
}

/// Returns how often a clock waits in three ticks. Between ticks, none of its threads may wake up:
/// a clock that polled would not come to rest. A busy machine delays that, but does not prevent it.
fn waits_of_clock(clock: harness::Run) -> u32 {
    let mut clock = clock.start();
    clock.await_stdout("ticking");
    clock.await_rest();
    clock.await_stdout("waits");
    clock.signal("KILL");
    let outcome = clock.finish();
    outcome.ended_by_signal(9);
    let (_, counted) = outcome.stdout.split_once('\n').expect("two lines");
    let count = counted.split('\t').next().map(str::parse);
    count.expect("a count").expect("a number")
}

/// Each of three ticks waits for the next one. It makes at most five calls of X's functions. On a
/// busy machine they may seem long, and are then made on another thread while the clock waits. A
/// clock that polled would wait hundreds of times.
const FEW: u32 = 3 * (1 + 5);

#[test]
fn a_clock_in_a_window_sleeps_between_its_ticks_as_one_without_a_window_does() {
    let clock = || baton().script("idle/clock.lua");
    let alone = waits_of_clock(clock());
    assert!((3..=FEW).contains(&alone), "no window: {alone}");
    let Some(screen) = screen() else {
        return;
    };
    let shown = waits_of_clock(clock().arg("window").env("DISPLAY", screen.display()));
    assert!(
        (3..=FEW).contains(&shown),
        "a window: {shown}, none: {alone}"
    );
}
