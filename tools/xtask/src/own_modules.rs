//! The modules of Baton's own that are files beside the program, such as `baton/cluster.so`. Cargo
//! builds them into the program's directory, and packages have them in `lib/baton`.

use std::path::Path;

use crate::Outcome;
use crate::deb::tree::Tree;

/// A module.
#[derive(Debug)]
pub(crate) struct OwnModule {
    /// What follows `baton.` in `require "baton.NAME"`.
    pub(crate) name: &'static str,
    /// Its crate.
    pub(crate) package: &'static str,
}

/// All modules. `guests/lua/c/program/own_modules.c` has their names, too.
pub(crate) const ALL: [OwnModule; 2] = [
    OwnModule {
        name: "cluster",
        package: "baton-cluster",
    },
    OwnModule {
        name: "web",
        package: "baton-web",
    },
];

impl OwnModule {
    /// The file that cargo builds.
    pub(crate) fn built(&self) -> String {
        format!("libbaton_{}.so", self.name)
    }

    /// Where the file is below a directory for libraries.
    pub(crate) fn installed(&self) -> String {
        format!("baton/{}.so", self.name)
    }
}

/// The arguments of cargo that name all of them.
pub(crate) fn packages() -> Vec<&'static str> {
    ALL.iter().flat_map(|own| ["-p", own.package]).collect()
}

/// The program and all of them, as they are packed: cargo's names of their crates.
pub(crate) fn with_program(program: &'static str) -> Vec<&'static str> {
    let modules = ALL.iter().map(|own| own.package);
    std::iter::once(program).chain(modules).collect()
}

/// Copies the files that are beside a built program into a tree, below a directory for libraries.
pub(crate) fn copy(program: &Path, tree: &Tree, libraries: &str) -> Outcome {
    ALL.iter().try_for_each(|own| {
        let from = program.with_file_name(own.built());
        tree.copy(&from, &format!("{libraries}/{}", own.installed()))
    })
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::workspace;

    /// The interpreter names in its own source which modules it looks for.
    #[test]
    fn the_interpreter_knows_the_same_modules() {
        let source = workspace::root().join("guests/lua/c/program/own_modules.c");
        let source = std::fs::read_to_string(source).expect("the source is there");
        let names: Vec<String> = ALL
            .iter()
            .map(|own| format!("\"{}\", ", own.name))
            .collect();
        let expected = format!("names[] = {{{}NULL}};", names.concat());
        assert!(source.contains(&expected), "{expected}");
    }
}
