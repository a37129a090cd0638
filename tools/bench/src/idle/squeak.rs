//! Squeak's VM as an exhibit: as Debian has it, and with an idle wait that ends when its next timer
//! is due, as the runtime's does. It runs the image of Debian's `scratch`, without a display.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::calls;
use crate::contest::{Arm, Results};
use crate::verdict::{Goal, Verdict};

const AS_IT_IS: &str = "Squeak";
const UNTIL_DUE: &str = "Squeak, waits until due";

/// The only case: the image waits for events and for its own timers.
const CASE: &str = "nothing";

/// A process of the image waits 25 ms again and again. So 40 wake-ups a second are due.
const GOAL: Goal = Goal::at_most(44.0, " wake-ups a second", 1);

const IMAGE: &str = "/usr/share/scratch/Scratch.image";
const REMEDY: &str = "apt-get install --no-install-recommends squeak-vm scratch";

/// The directory of the VM and its plugins, which has the VM's version in its name.
fn directory_of_vm() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/squeak").ok()?.flatten();
    let mut directories = versions.map(|version| version.path());
    directories.find(|directory| directory.join("squeakvm").exists())
}

/// The VM, before and after. `home` is a directory for its files.
pub(super) fn arms(home: &Path) -> [Arm; 2] {
    let found = directory_of_vm().filter(|_| Path::new(IMAGE).exists());
    let Some(vm) = found else {
        return [AS_IT_IS, UNTIL_DUE].map(|name| Arm::missing(name, REMEDY).only(&[CASE]));
    };
    let (vm, home) = (vm.as_path(), home.to_path_buf());
    // The interval timer only makes its clock cheaper. It would interrupt the longer wait.
    let library = Path::new(calls::DIRECTORY).join("squeak_wait.so");
    [
        start(AS_IT_IS, vm, &home, ""),
        start(UNTIL_DUE, vm, &home, "-notimer").with("LD_PRELOAD", library.to_string_lossy()),
    ]
    .map(|arm| arm.only(&[CASE]))
}

/// The shell says that the image is ready, when that has had time to start.
fn start(name: &'static str, vm: &Path, home: &Path, option: &'static str) -> Arm {
    let script = format!(
        "(LD_PRELOAD= sleep 5; echo ready) & exec {vm}/squeakvm {option} -encoding UTF-8 \
         -vm-display-null -vm-sound-null -plugins /usr/lib/scratch/plugins/:{vm}/ {IMAGE} \
         >/dev/null",
        vm = vm.display()
    );
    let home = home.to_path_buf();
    Arm::present(name, move || {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        for variable in ["HOME", "SQUEAK_SECUREDIR", "SQUEAK_USERDIR"] {
            command.env(variable, &home);
        }
        command
    })
}

/// The verdict, if the VM was there.
pub(super) fn verdict(results: &Results) -> Option<Verdict> {
    let (arm, case) = results.place(UNTIL_DUE, CASE)?;
    let median = results.median(arm, case, "wakeups")?;
    Some(GOAL.judge(
        "Squeak's VM, with a wait until its next timer",
        Some(median),
    ))
}
