//! What clients make of the answers to observers: texts and files. The program itself is one of the
//! clients (`require "baton.inspect"`).

pub mod heap;
pub mod metrics;
pub mod profile;
