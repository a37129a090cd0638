//! Reads the energy that the machine's processors have used, if they count it (RAPL of Intel and
//! AMD, as Linux shows it).

use std::fs;
use std::path::{Path, PathBuf};

/// The directory in which Linux shows the counters.
const ROOT: &str = "/sys/class/powercap";

/// The counters of all processor packages. A counter starts again at zero after its largest value.
pub(super) struct Energy {
    packages: Vec<PathBuf>,
}

/// The values of the counters at one time, in microjoules, with the largest value of each.
pub(super) struct Reading(Vec<(u64, u64)>);

impl Energy {
    /// The counters of this machine. `None` if there is no counter, or if only root may read it and
    /// we are not root.
    pub(super) fn of_this_machine() -> Option<Self> {
        Self::below(Path::new(ROOT))
    }

    fn below(root: &Path) -> Option<Self> {
        // A package is "intel-rapl:0", and "intel-rapl:0:1" is a part of it.
        let is_package = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("intel-rapl:") && name.matches(':').count() == 1
        };
        let entries = fs::read_dir(root).ok()?.flatten().map(|entry| entry.path());
        let packages: Vec<PathBuf> = entries.filter(is_package).collect();
        let energy = Self { packages };
        let is_there = !energy.packages.is_empty() && energy.read().is_some();
        is_there.then_some(energy)
    }

    /// Reads all counters.
    pub(super) fn read(&self) -> Option<Reading> {
        let number = |package: &Path, name: &str| {
            fs::read_to_string(package.join(name))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        let read = |package: &PathBuf| {
            Some((
                number(package, "energy_uj")?,
                number(package, "max_energy_range_uj")?,
            ))
        };
        self.packages
            .iter()
            .map(read)
            .collect::<Option<_>>()
            .map(Reading)
    }
}

impl Reading {
    /// The joules from an earlier reading to this one.
    pub(super) fn joules_since(&self, earlier: &Reading) -> f64 {
        let used = |(&(now, range), &(before, _)): (&(u64, u64), &(u64, u64))| match now >= before {
            true => now - before,
            false => range - before + now,
        };
        let microjoules: u64 = self.0.iter().zip(&earlier.0).map(used).sum();
        microjoules as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(root: &Path, package: &str, microjoules: u64) {
        let directory = root.join(package);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("energy_uj"), format!("{microjoules}\n")).unwrap();
        fs::write(directory.join("max_energy_range_uj"), "10000000\n").unwrap();
    }

    #[test]
    fn packages_are_summed_up_without_their_parts_and_across_a_new_beginning() {
        let root = tempfile::tempdir().unwrap();
        show(root.path(), "intel-rapl:0", 1_000_000);
        show(root.path(), "intel-rapl:1", 9_500_000);
        show(root.path(), "intel-rapl:0:0", 0);
        let energy = Energy::below(root.path()).unwrap();
        let before = energy.read().unwrap();
        show(root.path(), "intel-rapl:0", 3_000_000);
        show(root.path(), "intel-rapl:1", 500_000);
        show(root.path(), "intel-rapl:0:0", 7_000_000);
        assert_eq!(energy.read().unwrap().joules_since(&before), 3.0);
    }

    #[test]
    fn a_machine_without_counters_has_none() {
        let root = tempfile::tempdir().unwrap();
        assert!(Energy::below(root.path()).is_none());
        fs::create_dir(root.path().join("intel-rapl:0")).unwrap();
        assert!(Energy::below(root.path()).is_none(), "nobody may read it");
        assert!(Energy::below(&root.path().join("absent")).is_none());
    }
}
