//! `baton debug`: a server of the Debug Adapter Protocol on standard input and output.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | the command line, and the loop: events of the client and of the program, in turn |
//! | `messages.rs` | messages of the protocol |
//! | `session.rs` | what the session knows; which request is handled where |
//! | `life.rs` | requests: from the start to the end, and once more |
//! | `control.rs` | requests: how processes stop and go on |
//! | `breakpoints.rs` | requests: breakpoints |
//! | `inspect.rs` | requests: stacks, variables |
//! | `evaluate.rs` | requests: expressions, completions |
//! | `references.rs`, `text.rs` | the numbers of frames and variables; how they are shown |
//! | `program.rs` | the program, and the conversation with it |
//!
//! Only the loop writes to the client, so messages do not mix. Nothing in it waits for the program:
//! what is left to do with an answer is kept until that comes.

mod breakpoints;
mod control;
mod evaluate;
mod inspect;
mod life;
mod messages;
mod program;
mod references;
mod session;
mod text;

use super::check_write;
use clap::Args;
use messages::{Request, read_request};
use program::{SimulatedRun, Wanted};
use serde_json::Value;
use session::{Flow, Session};
use std::ffi::OsString;
use std::io::{BufReader, stdin, stdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

#[derive(Args)]
#[command(
    after_help = "An editor starts this command, and speaks the Debug Adapter Protocol with \
                        it. Without a script or a process id, the editor says what to debug."
)]
pub(super) struct DebugOptions {
    /// Stops all processes and timers while one process has stopped
    #[arg(long)]
    all_stop: bool,
    /// Replays a simulated run: a seed, or what --simulate has printed, such as 1:p5@62=6
    #[arg(long, value_name = "RUN", conflicts_with = "write")]
    simulate: Option<SimulatedRun>,
    /// Attaches to a program that was not started with BATON_ATTACH=all
    #[arg(long)]
    write: bool,
    /// The process id of a running program, or a script with its arguments
    #[arg(value_name = "PID|SCRIPT", trailing_var_arg = true)]
    target: Vec<OsString>,
}

/// What happens, in the order in which the session handles it.
enum Happening {
    Client(Request),
    /// The client's side of the connection has ended.
    ClientGone,
    /// The client has sent something that is no message.
    ClientWrong(String),
    /// Something came from the program with this number, which counts restarts.
    Program(u64, FromProgram),
}

/// What comes from a program.
enum FromProgram {
    /// A line of the conversation.
    Says(Value),
    /// The conversation has ended.
    Gone,
    /// So has the program, if it was started for this session.
    Ended,
    /// A text that it has written, by the protocol's category.
    Output(&'static str, String),
    OutputEnds,
}

/// How long the texts of a program that has ended are waited for. A program that it has started may
/// keep its output open.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

impl DebugOptions {
    fn wanted(&self) -> Wanted {
        let mut wanted = Wanted {
            all_stop: self.all_stop,
            simulate: self.simulate.clone(),
            write: self.write,
            ..Wanted::default()
        };
        if let Some((first, rest)) = self.target.split_first() {
            match first.to_str().and_then(|text| text.parse().ok()) {
                Some(pid) if rest.is_empty() => wanted.pid = Some(pid),
                _ => {
                    wanted.program = Some(first.into());
                    wanted.raw_args = rest.to_vec();
                }
            }
        }
        wanted
    }
}

pub(super) fn run(options: &DebugOptions) -> Result<(), String> {
    check_write(options.write)?;
    let (sender, receiver) = channel();
    let from_client = sender.clone();
    thread::spawn(move || read_client(&from_client));
    let mut session = Session::new(options.wanted(), sender, stdout().lock());
    let result = serve(&mut session, &receiver);
    session.end();
    result
}

fn read_client(events: &Sender<Happening>) {
    let mut input = BufReader::new(stdin().lock());
    loop {
        let (event, is_last) = match read_request(&mut input) {
            Ok(Some(request)) => (Happening::Client(request), false),
            Ok(None) => (Happening::ClientGone, true),
            Err(why) => (Happening::ClientWrong(why), true),
        };
        // If nobody receives it, the session has ended.
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}

fn serve(session: &mut Session<'_>, events: &Receiver<Happening>) -> Result<(), String> {
    let gone = |error: std::io::Error| format!("cannot write to the client: {error}");
    loop {
        let event = match session.next_limit() {
            Some(limit) => events.recv_timeout(limit),
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let flow = match event {
            Ok(Happening::Program(generation, FromProgram::Ended))
                if generation == session.generation =>
            {
                match drain_output(session, events)? {
                    Flow::GoesOn => session.program_ended(),
                    Flow::Ends => return Ok(()),
                }
            }
            Ok(Happening::ClientWrong(why)) => return Err(why),
            Ok(event) => handle(session, event),
            Err(RecvTimeoutError::Timeout) => session.end_overdue().map(|()| Flow::GoesOn),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        if let Flow::Ends = flow.map_err(gone)? {
            return Ok(());
        }
    }
}

/// Handles what needs nothing else.
fn handle(session: &mut Session<'_>, event: Happening) -> std::io::Result<Flow> {
    match event {
        Happening::Client(request) => session.request(request),
        Happening::ClientGone | Happening::ClientWrong(_) => Ok(Flow::Ends),
        // Of a program that was started again.
        Happening::Program(generation, _) if generation != session.generation => Ok(Flow::GoesOn),
        Happening::Program(_, what) => match what {
            FromProgram::Says(line) => session.program_says(&line),
            FromProgram::Gone => session.program_gone(),
            FromProgram::Ended => Ok(Flow::GoesOn),
            FromProgram::Output(category, text) => session.output(category, &text),
            FromProgram::OutputEnds => session.output_ends(),
        },
    }
}

/// Passes on what a program that has ended has still written. What comes from the client meanwhile
/// is handled, too.
fn drain_output(session: &mut Session<'_>, events: &Receiver<Happening>) -> Result<Flow, String> {
    let gone = |error: std::io::Error| format!("cannot write to the client: {error}");
    while session.has_open_output() {
        let flow = match events.recv_timeout(LAST_OUTPUT) {
            Ok(Happening::ClientWrong(why)) => return Err(why),
            Ok(event) => handle(session, event),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        };
        if let Flow::Ends = flow.map_err(gone)? {
            return Ok(Flow::Ends);
        }
    }
    Ok(Flow::GoesOn)
}
