//! The tests of the pure parts of `--simulate`. They are beside the code, which belongs to a
//! program that cannot have a test harness: its entry is C's `main`.

#![allow(dead_code, reason = "the program uses the rest")]

#[path = "../src/simulation/ended.rs"]
mod ended;
#[path = "../src/simulation/failure.rs"]
mod failure;
#[path = "../src/simulation/minimize.rs"]
mod minimize;
#[path = "../src/simulation/table.rs"]
mod table;
