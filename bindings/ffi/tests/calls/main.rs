//! Tests calls into compiled C, and callbacks from it.

mod callbacks;
#[path = "../compiler/mod.rs"]
mod compiler;
mod generated;
#[path = "../generator/mod.rs"]
mod generator;
mod libraries;
mod limits;
mod numbers;
mod structures;
mod trial;
