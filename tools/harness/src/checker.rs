//! Programs that find mistakes in the memory of programs in C.

use std::path::Path;
use std::process::Command;

use crate::skip;

/// What finds mistakes in memory while a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checker {
    /// The compiler's AddressSanitizer: bounds in the program's own files, and leaks. The libraries
    /// are as always. They only allocate with it.
    AddressSanitizer,
    /// Valgrind's memcheck: bounds of heap blocks, values that nobody has set, and leaks,
    /// in the libraries as well.
    Memcheck,
}

impl Checker {
    /// Its name, for files.
    pub fn name(self) -> &'static str {
        match self {
            Checker::AddressSanitizer => "with_asan",
            Checker::Memcheck => "for_memcheck",
        }
    }

    /// Whether it is missing. If so, reports that `what` was not tested.
    pub fn is_missing(self, what: &str) -> bool {
        match self {
            // It comes with the compiler.
            Checker::AddressSanitizer => false,
            Checker::Memcheck => skip::is_missing(&["valgrind", "--version"], "valgrind", what),
        }
    }

    /// The flags for the compiler and the linker.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Checker::AddressSanitizer => &["-fsanitize=address", "-fno-omit-frame-pointer"],
            // It would read all of a library's debug information, which takes minutes.
            Checker::Memcheck => &["-Wl,--strip-debug"],
        }
    }

    /// What starts the program, before its name. Empty: nothing.
    pub fn runner(self) -> &'static [&'static str] {
        match self {
            Checker::AddressSanitizer => &[],
            // Without fair turns, a thread that loops keeps the others from running.
            Checker::Memcheck => &[
                "valgrind",
                "--quiet",
                "--error-exitcode=9",
                "--leak-check=full",
                "--show-leak-kinds=definite",
                "--errors-for-leak-kinds=definite",
                "--fair-sched=try",
            ],
        }
    }

    /// Sets what the checker reads of a program's environment.
    ///
    /// AddressSanitizer is not told of switches. So frames must stay on the stacks. And allocations
    /// need the slow kind of backtrace: the fast one ends at once on a stack that the thread did
    /// not begin with, and a block without a caller never counts as lost. It leaves the signals'
    /// actions to the program, which may look at them.
    ///
    /// A program that ends while one of its threads is starting would fail now and then: the thread
    /// is not known yet, and what AddressSanitizer holds for it counts as lost. One in 40 runs of a
    /// program that does nothing else does.
    pub fn prepare(self, command: &mut Command) -> &mut Command {
        match self {
            Checker::AddressSanitizer => command
                .env(
                    "ASAN_OPTIONS",
                    "detect_stack_use_after_return=0:fast_unwind_on_malloc=0:detect_leaks=1:\
                     handle_segv=0:handle_sigbus=0:handle_sigfpe=0:exitcode=9",
                )
                .env(
                    "LSAN_OPTIONS",
                    concat!(
                        "print_suppressions=0:suppressions=",
                        env!("CARGO_MANIFEST_DIR"),
                        "/address_sanitizer.supp"
                    ),
                ),
            Checker::Memcheck => command,
        }
    }

    /// A command that runs a program with it.
    pub fn command(self, program: &Path) -> Command {
        let mut command = match self.runner() {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        self.prepare(&mut command);
        command
    }
}
