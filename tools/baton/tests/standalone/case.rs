//! One comparison: what to run, and where the two programs may differ.

/// A way to call the interpreter, and the differences that are right.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) call: Call,
    pub(crate) input: &'static str,
    pub(crate) environment: Vec<(&'static str, &'static str)>,
    pub(crate) exceptions: Vec<Exception>,
}

/// How the interpreter is called.
pub(crate) enum Call {
    /// With these arguments, and "lua" as the name of the program.
    Direct(Vec<&'static str>),
    /// By this shell script, in which `$LUA` is the path of the program.
    Shell(&'static str),
}

/// A difference that is right. It is taken out of what `lua5.4` printed.
#[derive(Clone, Copy)]
pub(crate) enum Exception {
    /// The copyright line names the version of Lua, which is not the system's.
    Release,
    /// Debian links readline, which repeats on stdout what it reads from a pipe; `baton` reads as `lua` without it.
    ReadlineEcho,
    /// Lua changed this text after 5.4.4, the system's version.
    Newer {
        old: &'static str,
        new: &'static str,
        reason: &'static str,
    },
}

/// The case of this name that passes these arguments.
pub(crate) fn case(name: &'static str, arguments: &[&'static str]) -> Case {
    Case::new(name, Call::Direct(arguments.to_vec()))
}

/// The case of this name that runs `lua -e code`.
pub(crate) fn code(name: &'static str, code: &'static str) -> Case {
    Case::new(name, Call::Direct(vec!["-e", code]))
}

/// The case of this name that runs a shell script.
pub(crate) fn shell(name: &'static str, script: &'static str) -> Case {
    Case::new(name, Call::Shell(script))
}

/// The case of this name that types these lines into `lua -i`.
pub(crate) fn typed(name: &'static str, lines: &'static str) -> Case {
    case(name, &["-i"])
        .input(lines)
        .except(Exception::Release)
        .except(Exception::ReadlineEcho)
}

impl Case {
    fn new(name: &'static str, call: Call) -> Self {
        Case {
            name,
            call,
            input: "",
            environment: Vec::new(),
            exceptions: Vec::new(),
        }
    }

    /// What stands on the standard input; nothing if this is not called.
    pub(crate) fn input(mut self, input: &'static str) -> Self {
        self.input = input;
        self
    }

    /// Sets a variable of the environment.
    pub(crate) fn variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.environment.push((name, value));
        self
    }

    /// Allows a difference.
    pub(crate) fn except(mut self, exception: Exception) -> Self {
        self.exceptions.push(exception);
        self
    }

    /// Allows the text that Lua 5.4.4 printed as `old` to be `new`.
    pub(crate) fn newer(self, old: &'static str, new: &'static str, reason: &'static str) -> Self {
        self.except(Exception::Newer { old, new, reason })
    }
}
