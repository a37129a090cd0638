//! A static library of this repository, which programs in C are linked with.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::{Place, cargo, succeed};

/// A static library. It is built when a test first needs it: a test cannot link one, so cargo does
/// not build it for the tests.
#[derive(Debug)]
pub struct Archive {
    pub(crate) place: Place,
    package: &'static str,
    pub(crate) includes: &'static [&'static str],
    built: OnceLock<PathBuf>,
}

impl Archive {
    /// The library of a package. Its headers are in `includes`, from the crate's directory.
    pub const fn of(
        package: &'static str,
        place: Place,
        includes: &'static [&'static str],
    ) -> Archive {
        Archive {
            place,
            package,
            includes,
            built: OnceLock::new(),
        }
    }

    /// Its path, in the directory of the debug build.
    pub fn built(&self) -> &Path {
        self.built.get_or_init(|| {
            let target = self.place.scratch().parent().expect("the target directory");
            let mut build = cargo();
            build
                .args(["build", "--offline", "--quiet", "-p", self.package])
                .arg("--target-dir")
                .arg(target)
                .current_dir(self.place.of_crate);
            succeed(&mut build);
            let name = self.package.replace('-', "_");
            target.join(format!("debug/lib{name}.a"))
        })
    }
}
