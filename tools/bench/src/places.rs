//! Chooses the CPUs that a program runs on, and the load beside it.

use anyhow::{Result, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// CPUs to run on. They take the place of the nine machines in the 1997 article.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    cpus: CpuSet,
    /// Whether other programs compute there, one on each CPU.
    pub(crate) is_loaded: bool,
}

impl Place {
    /// The places: one CPU, two CPUs if there are two, and one CPU on which another program
    /// computes. The first is the last CPU that we may use, because the low ones serve most
    /// interrupts.
    pub(crate) fn all() -> Result<Vec<Place>> {
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let numbers: Vec<usize> = (0..CpuSet::count())
            .filter(|&cpu| allowed.is_set(cpu).unwrap_or(false))
            .collect();
        ensure!(!numbers.is_empty(), "there is no CPU to run on");
        let last = |count: usize| -> Result<CpuSet> {
            let mut cpus = CpuSet::new();
            numbers
                .iter()
                .rev()
                .take(count)
                .try_for_each(|&cpu| cpus.set(cpu))?;
            Ok(cpus)
        };
        let place = |name, count, is_loaded| -> Result<Place> {
            Ok(Place {
                name,
                cpus: last(count)?,
                is_loaded,
            })
        };
        let mut places = vec![place("one CPU", 1, false)?];
        if numbers.len() > 1 {
            places.push(place("two CPUs", 2, false)?);
        }
        places.push(place("one CPU under load", 1, true)?);
        Ok(places)
    }

    /// Calls `f`, whose children run at this place.
    pub(crate) fn within<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        within(&self.cpus, f)
    }
}

fn within<T>(cpus: &CpuSet, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let this = Pid::from_raw(0);
    let before = sched_getaffinity(this)?;
    sched_setaffinity(this, cpus)?;
    let done = f();
    sched_setaffinity(this, &before)?;
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn children_run_on_the_given_cpus_and_later_ones_on_all() {
        let place = Place::all().unwrap()[0];
        let count = || -> Result<usize> {
            let output = Command::new("nproc").output()?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
        };
        let before = count().unwrap();
        assert_eq!(place.within(count).unwrap(), 1);
        assert_eq!(count().unwrap(), before);
    }
}
