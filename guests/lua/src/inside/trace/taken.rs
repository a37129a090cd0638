//! Events that are taken from the VM at once, inside it, and written later.

use super::batch;
use super::convert::Converter;
use baton_core::sched::CarrierId;
use baton_core::vm::{Inside, NoLook, View, Vm};
use baton_sys::clock::Instant;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

/// How long a look at another VM waits.
const PATIENCE: Duration = Duration::from_secs(1);

/// Events that were taken from the VM, to be written.
pub(crate) struct Taken {
    batch: batch::Batch,
    standing: Vec<batch::Standing>,
    threads: Vec<(CarrierId, i32)>,
    at: Instant,
}

impl Taken {
    /// The events from number `from` on.
    pub(super) fn new(inside: &Inside<'_>, from: u64) -> Taken {
        let threads = inside.native_threads();
        inside.view(|view| Taken::seen(view, from, threads))
    }

    /// All events of another VM, which the calling process looks at.
    ///
    /// # Errors
    /// As of [`Vm::look`].
    pub(super) fn of_other(vm: &Vm) -> Result<Taken, NoLook> {
        let threads = vm.native_threads();
        vm.look(PATIENCE, |view| Taken::seen(view, 0, threads))
    }

    fn seen(view: &mut View<'_>, from: u64, threads: Vec<(CarrierId, i32)>) -> Taken {
        Taken {
            batch: batch::read(view, from, usize::MAX, &mut batch::Known::default()),
            standing: batch::standing(view),
            threads,
            at: Instant::now(),
        }
    }

    /// Without what is older than the last event by more than `keep`.
    pub(super) fn of_last(mut self, keep: Duration) -> Taken {
        let last = self.batch.events.last().map_or(self.at, |event| event.at);
        self.batch.keep_after(last - keep);
        self
    }

    pub(super) fn write(self, out: impl Write) -> io::Result<()> {
        let begin = self.batch.events.first().map_or(self.at, |event| event.at);
        let mut converter = Converter::new(out, begin)?;
        converter.add_threads(&self.threads)?;
        converter.add(self.batch)?;
        converter.finish(self.at, self.standing)?;
        Ok(())
    }

    pub(super) fn write_to(self, path: &Path) -> io::Result<()> {
        self.write(BufWriter::new(File::create(path)?))
    }
}
