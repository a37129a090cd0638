//! The systems that programs are built for.

/// A system, by the names that others have for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The architecture, as `uname -m` names it.
    pub(crate) architecture: &'static str,
    /// rustc's name.
    pub(crate) triple: &'static str,
    /// Zig's name, without the version of the C library.
    pub(crate) zig: &'static str,
    /// Debian's name of the architecture.
    pub(crate) debian: &'static str,
    /// Node's name of the architecture.
    pub(crate) node: &'static str,
    /// The program that runs its programs on other architectures, with arguments.
    pub(crate) emulator: &'static [&'static str],
    /// The machine in the header of its programs (elf(5)).
    pub(crate) elf_machine: u16,
    /// Debian's C compiler for it on other architectures, if tests run there.
    pub(crate) cross_compiler: Option<&'static str>,
}

/// The oldest glibc that the programs run with.
pub(crate) const GLIBC: (u32, u32) = (2, 28);

/// All systems.
pub(crate) const TARGETS: [Target; 2] = [
    Target {
        architecture: "x86_64",
        triple: "x86_64-unknown-linux-gnu",
        zig: "x86_64-linux-gnu",
        debian: "amd64",
        node: "x64",
        emulator: &["qemu-x86_64"],
        elf_machine: 62,
        cross_compiler: None,
    },
    Target {
        architecture: "aarch64",
        triple: "aarch64-unknown-linux-gnu",
        zig: "aarch64-linux-gnu",
        debian: "arm64",
        node: "arm64",
        emulator: &["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"],
        elf_machine: 183,
        cross_compiler: Some("aarch64-linux-gnu-gcc"),
    },
];

impl Target {
    /// The target with this architecture.
    pub(crate) fn of(architecture: &str) -> Option<&'static Target> {
        TARGETS
            .iter()
            .find(|target| target.architecture == architecture)
    }

    /// Whether this machine runs its programs without an emulator.
    pub(crate) fn is_native(&self) -> bool {
        self.architecture == std::env::consts::ARCH
    }

    /// The name of the archive, without its ending.
    pub(crate) fn archive_name(&self) -> String {
        format!("baton-{}-{}-linux", super::VERSION, self.architecture)
    }

    /// The tag of a wheel for it (PEP 600).
    pub(crate) fn wheel_tag(&self) -> String {
        let (major, minor) = GLIBC;
        format!("manylinux_{major}_{minor}_{}", self.architecture)
    }
}
