//! Makes the kernel run another architecture's programs under an emulator, for one command and all
//! that it starts.
//!
//! Tests start programs, which start further ones. A runner of cargo's would only start the first.
//! The kernel can start an emulator for each of them (binfmt_misc), but only root may register one,
//! and then it holds for the whole system. Since Linux 6.7, each user namespace has registrations
//! of its own. So the command runs in a new one, and the registration ends with it.

use std::process::Command;

use crate::dist::target::Target;

/// A shell script that runs its arguments in a user namespace with a mount namespace.
///
/// For root, the namespace has all users of this one, as tests start servers as other users. It is
/// made by a process that only waits: its maps must be written from outside. Another user can map
/// itself only, and sees itself as root.
const ENTER: &str = r#"
if [ "$(id -u)" != 0 ]; then
    exec unshare --user --map-root-user --mount "$@"
fi
unshare --user sleep 60 &
holder=$!
until [ "$(readlink /proc/$holder/ns/user)" != "$(readlink /proc/$$/ns/user)" ]; do
    kill -0 $holder || exit 125
    sleep 0.01
done
for kind in uid gid; do
    read -r first _ count <"/proc/$$/${kind}_map"
    echo "$first $first $count" >"/proc/$holder/${kind}_map" || exit 125
done
exec 3<"/proc/$holder/ns/user"
kill $holder
wait $holder 2>/dev/null
exec nsenter --user=/proc/self/fd/3 unshare --mount "$@"
"#;

/// A shell script for inside. Its arguments are the registration, and the command with its
/// arguments.
const REGISTER: &str = r#"
exec 3<&-
place=/proc/sys/fs/binfmt_misc
mount -t binfmt_misc binfmt_misc "$place" && printf %s "$1" >"$place/register" || {
    echo "cannot register an emulator: this needs Linux 6.7 with CONFIG_BINFMT_MISC" >&2
    exit 125
}
shift
exec "$@"
"#;

/// The same command, in a user namespace in which the kernel runs the target's programs under the
/// emulator at this absolute path.
pub(super) fn with_emulator(target: &Target, emulator: &str, command: &Command) -> Command {
    let mut wrapped = Command::new("sh");
    wrapped
        .args(["-c", ENTER, "sh"])
        .args(["sh", "-c", REGISTER, "sh"])
        .arg(registration(target, emulator))
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        wrapped.current_dir(directory);
    }
    wrapped
}

/// What the kernel is told: which first bytes of a file it compares under which mask, and the
/// emulator. The flag `P` keeps the name under which a program was started (`argv[0]`).
///
/// The bytes are the header of an ELF file (elf(5)): 64 bits, little-endian, any system, a program
/// at a fixed place or at any, and the machine.
fn registration(target: &Target, emulator: &str) -> String {
    let [low, high] = target.elf_machine.to_le_bytes();
    let magic = format!(
        r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x{low:02x}\x{high:02x}"
    );
    let mask = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff";
    let name = target.architecture;
    format!(":baton-{name}:M::{magic}:{mask}:{emulator}:P")
}

#[cfg(test)]
mod checks {
    use super::*;

    fn arm() -> &'static Target {
        Target::of("aarch64").expect("it is listed")
    }

    #[test]
    fn the_registration_names_the_machine_and_the_emulator() {
        let line = registration(arm(), "/usr/bin/qemu-aarch64");
        assert!(
            line.starts_with(r":baton-aarch64:M::\x7fELF\x02\x01"),
            "{line}"
        );
        assert!(line.contains(r"\x02\x00\xb7\x00:\xff"), "{line}");
        assert!(line.ends_with(":/usr/bin/qemu-aarch64:P"), "{line}");
        // The kernel takes at most 1920 bytes.
        assert!(line.len() < 1920);
    }

    #[test]
    fn the_command_keeps_its_arguments_environment_and_directory() {
        let mut command = Command::new("cargo");
        command
            .args(["test", "-p", "a b"])
            .env("A", "b")
            .env_remove("C");
        command.current_dir("/");
        let wrapped = with_emulator(arm(), "/usr/bin/qemu-aarch64", &command);
        let words: Vec<_> = wrapped
            .get_args()
            .map(|word| word.display().to_string())
            .collect();
        assert!(
            words.ends_with(&["cargo", "test", "-p", "a b"].map(str::to_owned)),
            "{words:?}"
        );
        assert_eq!(wrapped.get_current_dir(), Some("/".as_ref()));
        let variables: Vec<_> = wrapped.get_envs().collect();
        assert!(variables.contains(&("A".as_ref(), Some("b".as_ref()))));
        assert!(variables.contains(&("C".as_ref(), None)));
    }
}
