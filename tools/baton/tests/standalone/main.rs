//! `baton` against the system's `lua5.4`: the same command line, script and input must give the same output, messages
//! and exit status. Where they rightly differ, the case says why (see `Case::except`).

mod case;
mod depth;
mod environment;
mod errors;
mod exit;
mod interactive;
mod language;
mod options;
mod own;
mod run;
mod scripts;
mod signals;
mod streams;
mod terminal;
