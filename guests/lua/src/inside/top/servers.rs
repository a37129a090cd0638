//! The servers of `baton.http`, of all VMs, with their figures.
//!
//! | a server | its counts | its entry in the list |
//! |---|---|---|
//! | is made | are made: the server and the entry have them | is made |
//! | has stopped ([`baton_server_counts_unlist`]) | stay | is removed |
//! | is collected ([`baton_server_counts_free`]) | are freed | is removed |
//! | its VM has ended without collecting it | stay for ever | is removed by the next reader |
//!
//! Whoever has the mutex of the list takes the one of the list of VMs, and no other.

use crate::vms::list;
use baton_core::vm::Vm;
use baton_sys::forking::{Child, ForkMutex};
use serde::Serialize;
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The most servers of an answer.
const MOST_SERVERS: usize = 100;

/// How many counts there are: `enum baton_server_count` of `guests/lua/c/http/inside.h`.
const COUNTS: usize = 13;

// Their places, in the same order.
const ACCEPTED: usize = 0;
const CONNECTIONS: usize = 1;
const HANDLERS: usize = 2;
const REQUESTS: usize = 3;
const REFUSED: usize = 4;
const TIMEOUTS: usize = 5;
const FAILURES: usize = 6;

/// The counts of a server. The C half writes them.
#[repr(transparent)]
#[derive(Default)]
struct Counts([AtomicU64; COUNTS]);

impl Counts {
    fn of(&self, place: usize) -> u64 {
        // Relaxed: each count is read by itself, and nothing depends on it.
        self.0[place].load(Ordering::Relaxed)
    }
}

/// A server that has not stopped.
struct ListedServer {
    number: u64,
    /// The number of its VM.
    vm: u64,
    name: String,
    address: String,
    counts: Arc<Counts>,
}

struct ServerList {
    servers: Vec<ListedServer>,
    next: u64,
}

impl ServerList {
    const EMPTY: ServerList = ServerList {
        servers: Vec::new(),
        next: 1,
    };
}

static LIST: ForkMutex<ServerList> = ForkMutex::new(ServerList::EMPTY);

/// The child keeps the list, unless another thread was changing it at the fork.
pub(in crate::inside) fn renew_in_child(child: &Child) {
    LIST.free_in_child(child, ServerList::EMPTY);
}

/// A server in the table.
#[derive(Clone, Serialize)]
pub(super) struct ServerRow {
    /// No other server of the program has it.
    id: u64,
    vm: String,
    name: String,
    address: String,
    /// What there is now.
    connections: u64,
    handlers: u64,
    /// What there was so far.
    accepted: u64,
    requests: u64,
    refused: u64,
    timeouts: u64,
    failures: u64,
    /// Requests in each second since the question before; none for the first one.
    rate: Option<f64>,
}

/// What was read last.
#[derive(Default)]
pub(super) struct LastServers {
    rows: Vec<ServerRow>,
}

impl LastServers {
    pub(super) fn rows(&self) -> &[ServerRow] {
        &self.rows
    }

    /// Reads all servers. `passed` is the time since the question before, if there was one.
    pub(super) fn read(&mut self, passed: Option<Duration>) {
        self.take(read(), passed);
    }

    fn take(&mut self, rows: Vec<ServerRow>, passed: Option<Duration>) {
        let before: HashMap<u64, u64> =
            self.rows.iter().map(|row| (row.id, row.requests)).collect();
        self.rows = rows;
        for row in &mut self.rows {
            // One that is new had no requests.
            let before = before.get(&row.id).copied().unwrap_or(0);
            row.rate = passed
                .filter(|passed| !passed.is_zero())
                .map(|passed| row.requests.saturating_sub(before) as f64 / passed.as_secs_f64());
        }
    }
}

/// The servers in the order in which they were made.
fn read() -> Vec<ServerRow> {
    let mut list = LIST.lock();
    if list.servers.is_empty() {
        return Vec::new();
    }
    let vms: HashMap<u64, String> = list::observed()
        .into_iter()
        .map(|observed| (observed.id, observed.name))
        .collect();
    list.servers.retain(|server| vms.contains_key(&server.vm));
    let row = |server: &ListedServer| ServerRow {
        id: server.number,
        vm: vms.get(&server.vm).cloned().unwrap_or_default(),
        name: server.name.clone(),
        address: server.address.clone(),
        connections: server.counts.of(CONNECTIONS),
        handlers: server.counts.of(HANDLERS),
        accepted: server.counts.of(ACCEPTED),
        requests: server.counts.of(REQUESTS),
        refused: server.counts.of(REFUSED),
        timeouts: server.counts.of(TIMEOUTS),
        failures: server.counts.of(FAILURES),
        rate: None,
    };
    list.servers.iter().take(MOST_SERVERS).map(row).collect()
}

/// Makes the counts of a server in the VM with this executor, and lists it.
///
/// # Safety
/// The texts are C strings.
// SAFETY: the only definition of this symbol, with the signature of `c/http/sessions.c`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_server_counts_new(
    executor: *const Vm,
    name: *const c_char,
    address: *const c_char,
) -> *const Counts {
    let counts = Arc::new(Counts::default());
    // SAFETY: the caller's condition.
    let [name, address] =
        [name, address].map(|text| unsafe { CStr::from_ptr(text).to_string_lossy().into_owned() });
    let vms = list::observed().into_iter();
    let mut vms = vms.filter(|observed| Arc::as_ptr(&observed.vm) == executor);
    if let Some(vm) = vms.next() {
        let mut list = LIST.lock();
        let number = list.next;
        list.next += 1;
        list.servers.push(ListedServer {
            number,
            vm: vm.id,
            name,
            address,
            counts: Arc::clone(&counts),
        });
    }
    Arc::into_raw(counts)
}

/// Observers do not see the server any more.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_server_counts_unlist(counts: *const Counts) {
    let mut list = LIST.lock();
    let is_it = |server: &ListedServer| Arc::as_ptr(&server.counts) == counts;
    let place = list.servers.iter().position(is_it);
    if let Some(place) = place {
        list.servers.remove(place);
    }
}

/// Frees the counts of a server that was collected.
///
/// # Safety
/// [`baton_server_counts_new`] has returned them, and they are not used again.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_server_counts_free(counts: *const Counts) {
    baton_server_counts_unlist(counts);
    // SAFETY: the caller's conditions.
    drop(unsafe { Arc::from_raw(counts) });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: u64, requests: u64) -> ServerRow {
        ServerRow {
            id,
            vm: "main".to_owned(),
            name: "http".to_owned(),
            address: "127.0.0.1:80".to_owned(),
            connections: 0,
            handlers: 0,
            accepted: 0,
            requests,
            refused: 0,
            timeouts: 0,
            failures: 0,
            rate: None,
        }
    }

    #[test]
    fn a_rate_is_of_the_time_since_the_question_before() {
        let mut seen = LastServers::default();
        seen.take(vec![row(1, 50)], None);
        assert_eq!(seen.rows()[0].rate, None);
        let two_seconds = Some(Duration::from_secs(2));
        seen.take(vec![row(1, 250), row(2, 10)], two_seconds);
        let rates: Vec<_> = seen.rows().iter().map(|row| row.rate).collect();
        assert_eq!(rates, [Some(100.0), Some(5.0)]);
        seen.take(vec![row(2, 10)], two_seconds);
        assert_eq!(seen.rows()[0].rate, Some(0.0));
    }

    #[test]
    fn a_server_of_no_known_vm_is_not_listed_and_its_counts_are_freed() {
        // SAFETY: both are C strings.
        let counts = unsafe {
            baton_server_counts_new(std::ptr::null(), c"http".as_ptr(), c"[::]:80".as_ptr())
        };
        let is_listed = |server: &ListedServer| Arc::as_ptr(&server.counts) == counts;
        assert!(!LIST.lock().servers.iter().any(is_listed));
        // SAFETY: they were just made.
        unsafe { baton_server_counts_free(counts) };
    }
}
