//! Checks the direction of dependencies between our crates. The layers are sys, core, bindings,
//! guests and tools. A crate may only depend on crates of earlier layers.

use super::finding::Finding;

/// The layers from the lowest to the highest: the directory of a layer's crates, and the layer's
/// name.
const LAYERS: [(&str, &str); 5] = [
    ("runtime/sys/", "sys"),
    ("runtime/core/", "core"),
    ("bindings/", "bindings"),
    ("guests/", "guests"),
    ("tools/", "tools"),
];

/// A crate of the workspace.
struct Member {
    file: String,
    name: String,
    layer: usize,
    /// The name and the line of each dependency.
    dependencies: Vec<(String, usize)>,
}

/// Finds dependencies on a crate that is not of an earlier layer. `manifests` holds the path and
/// the text of every manifest.
pub(super) fn check(manifests: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut members = Vec::new();
    for (file, text) in manifests.iter().filter(|(file, _)| file != "Cargo.toml") {
        match LAYERS
            .iter()
            .position(|(directory, _)| file.starts_with(directory))
        {
            Some(layer) => members.push(Member::parse(file, text, layer)),
            None => findings.push(Finding::error(
                file,
                0,
                "a crate outside of the layers' directories; move it",
            )),
        }
    }
    for member in &members {
        for (dependency, line) in &member.dependencies {
            let Some(other) = members.iter().find(|other| other.name == *dependency) else {
                continue;
            };
            if other.layer >= member.layer {
                let (own, others) = (LAYERS[member.layer].1, LAYERS[other.layer].1);
                let message = format!(
                    "{} ({own}) must not depend on {dependency} ({others})",
                    member.name
                );
                findings.push(Finding::error(&member.file, *line, message));
            }
        }
    }
    findings
}

impl Member {
    /// Reads the parts of a manifest that this rule needs.
    fn parse(file: &str, text: &str, layer: usize) -> Self {
        let mut member = Self {
            file: file.to_owned(),
            name: String::new(),
            layer,
            dependencies: Vec::new(),
        };
        let mut section = String::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end_matches(']').to_owned();
                // `[dependencies.name]` is a dependency.
                if let Some((before, name)) = section.rsplit_once('.')
                    && before.ends_with("dependencies")
                {
                    member.dependencies.push((name.to_owned(), index + 1));
                }
            } else if let Some((key, value)) = line.split_once('=') {
                if section == "package" && key.trim() == "name" {
                    member.name = value.trim().trim_matches('"').to_owned();
                } else if section.ends_with("dependencies") && !line.starts_with('#') {
                    let key = key.trim().split('.').next().unwrap_or_default();
                    member
                        .dependencies
                        .push((renamed(value).unwrap_or(key).to_owned(), index + 1));
                }
            }
        }
        member
    }
}

/// The real package of a renamed dependency, as in `{ package = "name" }`.
fn renamed(value: &str) -> Option<&str> {
    let (_, after) = value.split_once("package")?;
    after.split('"').nth(1)
}

#[cfg(test)]
mod checks {
    use super::*;

    const NOWHERE: [usize; 0] = [];

    fn manifest(file: &str, name: &str, rest: &str) -> (String, String) {
        (
            file.to_owned(),
            format!("[package]\nname = \"{name}\"\n{rest}"),
        )
    }

    fn found(core: &str) -> Vec<usize> {
        let sys = manifest("runtime/sys/Cargo.toml", "baton-sys", "");
        let core = manifest("runtime/core/Cargo.toml", "baton-core", core);
        let lua = manifest("guests/lua/Cargo.toml", "baton-lua", "");
        check(&[sys, core, lua]).iter().map(Finding::line).collect()
    }

    #[test]
    fn a_dependency_on_an_earlier_layer_passes() {
        assert_eq!(
            found("[dependencies]\nbaton-sys.workspace = true\nlibc = \"0.2\"\n"),
            NOWHERE
        );
    }

    #[test]
    fn a_dependency_on_a_later_layer_is_found_however_it_is_written() {
        assert_eq!(found("[dependencies]\nbaton-lua.workspace = true\n"), [4]);
        assert_eq!(
            found("[dev-dependencies]\nbaton-lua = { path = \"../../guests/lua\" }\n"),
            [4]
        );
        assert_eq!(found("[dependencies.baton-lua]\nworkspace = true\n"), [3]);
        assert_eq!(
            found("[target.'cfg(loom)'.dependencies]\nguest = { package = \"baton-lua\" }\n"),
            [4]
        );
    }

    #[test]
    fn a_crate_outside_of_the_layers_is_found() {
        assert_eq!(
            check(&[manifest("elsewhere/Cargo.toml", "stray", "")]).len(),
            1
        );
    }
}
