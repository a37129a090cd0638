//! VMs beside the program's first one: each on a home thread of its own, with a guest of its own.
//!
//! | file | what is there |
//! |---|---|
//! | `list.rs` | the VMs of the program |
//! | `reports.rs` | reports on other VMs, and halts |
//! | `start.rs` | the start of a VM, and its home thread |

pub(crate) mod list;
pub(crate) mod reports;
mod start;
