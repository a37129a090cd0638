//! Makes tracks, slices and arrows of events.
//!
//! | track | slices |
//! |---|---|
//! | of a process | what it does: it runs, is runnable, waits, is suspended, or is out in a call |
//! | of a native thread | the process that runs on it, a call, or an idle wait |
//!
//! The track of a process has one slice at a time, in which only pieces of the collector's work
//! lie. An arrow goes from the process that wakes or spawns another one to that one.

use super::batch::{Batch, Named, Standing};
use super::summary::Summary;
use super::words;
use baton_core::sched::{Blocker, CarrierId, ProcessId, State};
use baton_core::trace::{Left, TraceEvent, What};
use baton_core::vm::HOME;
use baton_formats::trace::{CounterUnit, CounterValue, Event, Flow, TraceWriter, Track};
use baton_sys::clock::Instant;
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

/// A process.
struct Process {
    track: Track,
    title: String,
    /// How many slices have begun and not ended: one, or more while it collects garbage.
    open: u32,
    /// When it began to run, if it runs.
    runs_since: Option<Duration>,
    ran: Duration,
    runs: u64,
    /// The native thread of its call.
    calls_on: Option<CarrierId>,
    has_ended: bool,
}

/// A native thread.
struct Thread {
    track: Track,
    name: String,
    is_open: bool,
}

/// Writes a trace.
pub(super) struct Converter<W: Write> {
    out: TraceWriter<W>,
    begin: Duration,
    last: Duration,
    processes: HashMap<ProcessId, Process>,
    /// Processes that have ended.
    ended: Vec<ProcessId>,
    /// Those that had ended before the last batch. Whom they have woken may be in that one. They
    /// are forgotten with the next one.
    gone: Vec<ProcessId>,
    names: HashMap<ProcessId, (u64, String)>,
    objects: HashMap<Blocker, String>,
    threads: HashMap<CarrierId, Thread>,
    running: Option<ProcessId>,
    idle: Option<(CarrierId, Duration)>,
    idle_time: Duration,
    lateness: Track,
    flows: u64,
    summary: Summary,
}

fn time(at: Instant) -> Duration {
    Duration::from_nanos(at.as_nanos())
}

impl<W: Write> Converter<W> {
    /// A trace that begins at `begin`.
    pub(super) fn new(out: W, begin: Instant) -> io::Result<Converter<W>> {
        let mut out = TraceWriter::new(out, "baton", std::process::id())?;
        out.time_of_day(time(Instant::now()), SystemTime::now())?;
        let lateness = out.counter_track("lateness of deadlines", CounterUnit::Nanoseconds)?;
        Ok(Converter {
            out,
            begin: time(begin),
            last: time(begin),
            processes: HashMap::new(),
            ended: Vec::new(),
            gone: Vec::new(),
            names: HashMap::new(),
            objects: HashMap::new(),
            threads: HashMap::new(),
            running: None,
            idle: None,
            idle_time: Duration::ZERO,
            lateness,
            flows: 0,
            summary: Summary::default(),
        })
    }

    /// Describes the native threads that are new.
    pub(super) fn add_threads(&mut self, threads: &[(CarrierId, i32)]) -> io::Result<()> {
        for &(carrier, id) in threads {
            if !self.threads.contains_key(&carrier) {
                let name = match carrier {
                    HOME => "home".to_owned(),
                    CarrierId(number) => format!("thread {number}"),
                };
                let track = self.out.thread_track(id.cast_unsigned(), &name)?;
                let is_open = false;
                self.threads.insert(
                    carrier,
                    Thread {
                        track,
                        name,
                        is_open,
                    },
                );
            }
        }
        Ok(())
    }

    /// Adds events.
    pub(super) fn add(&mut self, batch: Batch) -> io::Result<()> {
        let ended = std::mem::take(&mut self.ended);
        for process in std::mem::replace(&mut self.gone, ended) {
            self.names.remove(&process);
            if let Some(process) = self.processes.remove(&process) {
                self.summary.add(process.title, process.ran, process.runs);
            }
        }
        for named in batch.processes {
            self.names.insert(named.process, (named.number, named.name));
        }
        if batch.forgets_objects {
            self.objects.clear();
        }
        self.objects.extend(batch.objects);
        self.summary.lost += batch.reading.lost;
        if batch.reading.lost > 0
            && let Some(first) = batch.events.first()
        {
            self.forget_states(time(first.at))?;
        }
        self.read_names_of_ended(&batch.events);
        for (place, event) in batch.events.iter().enumerate() {
            if !matches!(event.what, What::Name(_)) {
                self.summary.events += 1;
                // Times that were converted in different batches may differ by some nanoseconds.
                // But that a call has come back is noted later.
                let at = match event.what {
                    What::CallEnds { .. } => time(event.at).max(self.begin),
                    _ => time(event.at).max(self.last),
                };
                self.last = self.last.max(at);
                let name = name_at(&batch.events[place + 1..]);
                self.happened(at, event.what, &name)?;
            }
        }
        Ok(())
    }

    /// Closes all slices: what happened up to now is not known.
    fn forget_states(&mut self, at: Duration) -> io::Result<()> {
        let open: Vec<ProcessId> = self.processes.keys().copied().collect();
        for process in open {
            self.close(process, at)?;
        }
        let carriers: Vec<CarrierId> = self.threads.keys().copied().collect();
        for carrier in carriers {
            self.close_thread(carrier, at)?;
        }
        (self.running, self.idle, self.begin) = (None, None, at);
        Ok(())
    }

    /// The name of a process that has ended is in the trace.
    fn read_names_of_ended(&mut self, events: &[TraceEvent]) {
        for (place, event) in events.iter().enumerate() {
            if let What::Ended { process, number } = event.what {
                let name = name_at(&events[place + 1..]);
                self.names.entry(process).or_insert((number, name));
            }
        }
    }

    fn happened(&mut self, at: Duration, what: What, name: &str) -> io::Result<()> {
        match what {
            What::Runs { process, carrier } => self.runs(at, process, carrier),
            What::Left {
                process,
                cause,
                blocker,
            } => self.left(at, process, cause, blocker),
            What::Wakes {
                process,
                by,
                reason,
            } => {
                let flow = self.caused(at, by, "wakes", process)?;
                let event = Event::new(at, "runnable", "runnable").with("wait", words::of(reason));
                self.is_runnable(process, flow, event)
            }
            What::Due { process, due } => {
                let late = at.saturating_sub(time(due));
                let lateness = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
                self.summary.latest = self.summary.latest.max(late.as_secs_f64());
                let value = CounterValue::Whole(i64::try_from(lateness).unwrap_or(i64::MAX));
                self.out.count(self.lateness, at, value)?;
                let event = Event::new(at, "runnable", "runnable")
                    .with("wait", "its time has come")
                    .with("late (ns)", lateness);
                self.is_runnable(process, None, event)
            }
            What::CallBegins { process, carrier } => self.call_begins(at, process, carrier, name),
            What::CallEnds { process } => self.call_ends(at, process),
            What::Spawned { process, by } => {
                let flow = self.caused(at, by, "spawns", process)?;
                self.is_runnable(process, flow, Event::new(at, "runnable", "spawned"))
            }
            What::Ended { process, .. } => {
                self.close(process, at)?;
                self.close_thread_of_running(at)?;
                self.process(process)?.has_ended = true;
                self.ended.push(process);
                Ok(())
            }
            What::IdleBegins { carrier } => {
                self.idle = Some((carrier, at));
                self.open_thread(carrier, &Event::new(at, "idle", "idle"))
            }
            What::IdleEnds => {
                let Some((carrier, since)) = self.idle.take() else {
                    return Ok(());
                };
                self.idle_time += at.saturating_sub(since);
                self.close_thread(carrier, at)
            }
            What::GarbageBegins => self.garbage_begins(at),
            What::GarbageEnds => self.garbage_ends(at),
            What::Stalls { process } => {
                let event = Event::new(at, "stall", "keeps all others waiting");
                self.begin_with_trace(process, "run", "runs")?;
                let track = self.track(process)?;
                self.out.instant(track, &event)
            }
            What::Name(_) => Ok(()),
        }
    }

    fn runs(&mut self, at: Duration, process: ProcessId, carrier: CarrierId) -> io::Result<()> {
        self.close_thread_of_running(at)?;
        self.add_threads(&[(carrier, unknown(carrier))])?;
        let thread = self.threads[&carrier].name.clone();
        let event = Event::new(at, "run", "runs").with("thread", thread.as_str());
        self.open(process, &event)?;
        self.summary.runs += 1;
        let it = self.process(process)?;
        (it.runs_since, it.runs) = (Some(at), it.runs + 1);
        let title = it.title.clone();
        self.running = Some(process);
        self.idle = None;
        self.open_thread(carrier, &Event::new(at, "run", title))
    }

    fn left(
        &mut self,
        at: Duration,
        process: ProcessId,
        cause: Left,
        blocker: Option<Blocker>,
    ) -> io::Result<()> {
        self.begin_with_trace(process, "run", "runs")?;
        self.close_thread_of_running(at)?;
        let event = match cause {
            Left::Waits => Event::new(at, "wait", self.wait(blocker)),
            Left::Suspended => Event::new(at, "suspended", "suspended"),
            Left::Calls | Left::Ended => return self.close(process, at),
            _ => Event::new(at, "runnable", "runnable").with("left", words::of_left(cause)),
        };
        self.open(process, &event)
    }

    fn call_begins(
        &mut self,
        at: Duration,
        process: ProcessId,
        carrier: CarrierId,
        name: &str,
    ) -> io::Result<()> {
        self.summary.calls += 1;
        let text = match name {
            "" => "a C function",
            name => name,
        };
        self.open(process, &Event::new(at, "call", format!("calls {text}")))?;
        let it = self.process(process)?;
        it.calls_on = Some(carrier);
        let title = format!("{}: {text}", it.title);
        self.open_thread(carrier, &Event::new(at, "call", title))
    }

    fn call_ends(&mut self, at: Duration, process: ProcessId) -> io::Result<()> {
        self.begin_with_trace(process, "call", "calls a C function")?;
        if let Some(carrier) = self.process(process)?.calls_on.take() {
            self.close_thread(carrier, at)?;
        }
        let event = Event::new(at, "runnable", "runnable").with("call", "has come back");
        self.open(process, &event)
    }

    fn garbage_begins(&mut self, at: Duration) -> io::Result<()> {
        let Some(process) = self.running else {
            return Ok(());
        };
        let it = self.process(process)?;
        it.open += 1;
        let track = it.track;
        self.out
            .begin(track, &Event::new(at, "garbage", "collects garbage"))
    }

    fn garbage_ends(&mut self, at: Duration) -> io::Result<()> {
        let Some(process) = self.running else {
            return Ok(());
        };
        let it = self.process(process)?;
        if it.open < 2 {
            return Ok(());
        }
        it.open -= 1;
        let track = it.track;
        self.out.end(track, at)
    }

    /// Notes that `by` has made `process` runnable. Returns the arrow from there.
    fn caused(
        &mut self,
        at: Duration,
        by: Option<ProcessId>,
        verb: &str,
        process: ProcessId,
    ) -> io::Result<Option<Flow>> {
        let Some(by) = by else {
            return Ok(None);
        };
        self.flows += 1;
        let flow = Flow(self.flows);
        let title = self.process(process)?.title.clone();
        let event = Event::new(at, "wake", format!("{verb} {title}")).causing(flow);
        if !self.process(by)?.has_ended {
            self.begin_with_trace(by, "run", "runs")?;
        }
        let track = self.track(by)?;
        self.out.instant(track, &event)?;
        Ok(Some(flow))
    }

    fn is_runnable(
        &mut self,
        process: ProcessId,
        flow: Option<Flow>,
        event: Event,
    ) -> io::Result<()> {
        if event.name == "runnable" {
            self.begin_with_trace(process, "wait", "waits")?;
        }
        let event = match flow {
            Some(flow) => event.caused_by(flow),
            None => event,
        };
        // A process that runs again before it was left: its wait has ended at once.
        if self.running == Some(process) && self.process(process)?.runs_since.is_some() {
            let track = self.track(process)?;
            return self.out.instant(track, &event);
        }
        self.open(process, &event)
    }

    /// What a process waits for.
    fn wait(&self, blocker: Option<Blocker>) -> String {
        let title = |process: ProcessId| match self.names.get(&process) {
            Some((number, name)) => words::title(*number, name),
            None => "another process".to_owned(),
        };
        match blocker {
            None => "waits".to_owned(),
            Some(Blocker::Join(process)) => format!("waits for the end of {}", title(process)),
            Some(blocker) => words::of_wait(blocker, self.name_of(blocker)),
        }
    }

    fn name_of(&self, blocker: Blocker) -> Option<&str> {
        self.objects.get(&blocker).map(String::as_str)
    }

    /// Begins the next slice of a process, in place of the last one.
    fn open(&mut self, process: ProcessId, event: &Event) -> io::Result<()> {
        self.close(process, event.at)?;
        let it = self.process(process)?;
        it.open = 1;
        let track = it.track;
        self.out.begin(track, event)
    }

    fn close(&mut self, process: ProcessId, at: Duration) -> io::Result<()> {
        let it = self.process(process)?;
        if let Some(since) = it.runs_since.take() {
            it.ran += at.saturating_sub(since);
        }
        let (track, open) = (it.track, std::mem::take(&mut it.open));
        for _ in 0..open {
            self.out.end(track, at)?;
        }
        Ok(())
    }

    /// If nothing is known of a process, it has done this since the trace began.
    fn begin_with_trace(
        &mut self,
        process: ProcessId,
        category: &str,
        name: &str,
    ) -> io::Result<()> {
        let begin = self.begin;
        if self.process(process)?.open > 0 {
            return Ok(());
        }
        self.open(process, &Event::new(begin, category, name))?;
        if category == "run" {
            self.process(process)?.runs_since = Some(begin);
        }
        Ok(())
    }

    fn open_thread(&mut self, carrier: CarrierId, event: &Event) -> io::Result<()> {
        self.add_threads(&[(carrier, unknown(carrier))])?;
        self.close_thread(carrier, event.at)?;
        if let Some(thread) = self.threads.get_mut(&carrier) {
            thread.is_open = true;
            self.out.begin(thread.track, event)?;
        }
        Ok(())
    }

    fn close_thread(&mut self, carrier: CarrierId, at: Duration) -> io::Result<()> {
        if let Some(thread) = self.threads.get_mut(&carrier)
            && std::mem::take(&mut thread.is_open)
        {
            self.out.end(thread.track, at)?;
        }
        Ok(())
    }

    /// The running process is left.
    fn close_thread_of_running(&mut self, at: Duration) -> io::Result<()> {
        if self.running.take().is_none() {
            return Ok(());
        }
        // Only the owner's thread runs a process, and others are in calls or closed.
        let calls: Vec<CarrierId> = self.calls().collect();
        let open: Vec<CarrierId> = self
            .threads
            .iter()
            .filter(|(carrier, thread)| thread.is_open && !calls.contains(carrier))
            .map(|(&carrier, _)| carrier)
            .collect();
        for carrier in open {
            self.close_thread(carrier, at)?;
        }
        Ok(())
    }

    fn calls(&self) -> impl Iterator<Item = CarrierId> + '_ {
        self.processes
            .values()
            .filter_map(|process| process.calls_on)
    }

    fn track(&mut self, process: ProcessId) -> io::Result<Track> {
        Ok(self.process(process)?.track)
    }

    fn process(&mut self, process: ProcessId) -> io::Result<&mut Process> {
        if !self.processes.contains_key(&process) {
            // One that has ended before it could be named has a number of its own.
            let unknown = (u64::from(process.index()), String::new());
            let (number, name) = self.names.remove(&process).unwrap_or(unknown);
            let track = self.out.process_track(number, &name)?;
            let title = words::title(number, &name);
            self.names.insert(process, (number, name));
            let new = Process {
                track,
                title,
                open: 0,
                runs_since: None,
                ran: Duration::ZERO,
                runs: 0,
                calls_on: None,
                has_ended: false,
            };
            self.processes.insert(process, new);
        }
        self.processes
            .get_mut(&process)
            .ok_or_else(|| io::Error::other("a process has no track"))
    }

    /// Flushes the output.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the trace at `at`, when processes were as in `standing`.
    pub(super) fn finish(
        mut self,
        at: Instant,
        standing: Vec<Standing>,
    ) -> io::Result<(W, Summary)> {
        let at = time(at).max(self.last);
        for process in standing {
            self.stands(process)?;
        }
        if let Some((_, since)) = self.idle {
            self.idle_time += at.saturating_sub(since);
        }
        let begin = self.begin;
        self.forget_states(at)?;
        let mut summary = std::mem::take(&mut self.summary);
        for process in self.processes.into_values() {
            summary.add(process.title, process.ran, process.runs);
        }
        summary.seconds = at.saturating_sub(begin).as_secs_f64();
        summary.idle = self.idle_time.as_secs_f64();
        summary.finish();
        Ok((self.out.finish()?, summary))
    }

    /// A process of which nothing was seen has been so all the time, or since it ran last.
    fn stands(&mut self, standing: Standing) -> io::Result<()> {
        let Named {
            process,
            number,
            name,
        } = standing.named;
        if self.processes.contains_key(&process) {
            return Ok(());
        }
        self.names.insert(process, (number, name));
        let at = time(standing.since).max(self.begin);
        let event = match standing.state {
            State::Suspended => Event::new(at, "suspended", "suspended"),
            State::Foreign => Event::new(at, "call", "calls a C function"),
            State::Waiting | State::Sleeping => Event::new(at, "wait", self.wait(standing.blocker)),
            _ => Event::new(at, "runnable", "runnable"),
        };
        self.open(process, &event)
    }
}

/// A number for a thread whose own one is not known: no thread of the system has it.
fn unknown(carrier: CarrierId) -> i32 {
    i32::MAX - i32::try_from(carrier.0).unwrap_or(0)
}

/// The name that belongs to the event before these.
fn name_at(events: &[TraceEvent]) -> String {
    let mut bytes = Vec::new();
    for event in events {
        match event.what {
            What::Name(letters) => bytes.extend_from_slice(letters.as_bytes()),
            _ => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
