//! Checks the direction of dependencies between our crates. The layers are harness, sys, observe,
//! core, bindings, library, formats, protocols, guests and tools. A crate may only depend on crates
//! of the layers that its own layer names.

use super::finding::Finding;

/// A layer: the directory of its crates, its name, and the layers that they may depend on.
struct Layer {
    directory: &'static str,
    name: &'static str,
    below: &'static [&'static str],
}

/// The layers, roughly from the lowest to the highest. A crate is in the layer with the longest
/// directory that contains it.
static LAYERS: [Layer; 11] = [
    layer("tools/harness/", "harness", &[]),
    layer("runtime/sys/", "sys", &[]),
    layer("runtime/observe/", "observe", &["sys"]),
    layer("runtime/core/", "core", &["sys"]),
    layer("bindings/", "bindings", &["sys", "core"]),
    layer("bindings/libbaton/", "library", &["harness", "bindings"]),
    layer("tools/formats/", "formats", &["harness"]),
    layer("guests/http/", "protocols", &[]),
    layer(
        "guests/",
        "guests",
        &["sys", "observe", "core", "bindings", "protocols", "formats"],
    ),
    layer(
        "guests/libbaton-lua/",
        "lua library",
        &["harness", "guests"],
    ),
    layer(
        "tools/",
        "tools",
        &[
            "harness", "sys", "observe", "core", "bindings", "formats", "guests",
        ],
    ),
];

const fn layer(
    directory: &'static str,
    name: &'static str,
    below: &'static [&'static str],
) -> Layer {
    Layer {
        directory,
        name,
        below,
    }
}

/// A crate of the workspace.
struct Member {
    file: String,
    name: String,
    layer: &'static Layer,
    /// The name and the line of each dependency.
    dependencies: Vec<(String, usize)>,
}

/// Finds dependencies on a crate of a layer that may not be used. `manifests` holds the path and
/// the text of every manifest.
pub(super) fn check(manifests: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut members = Vec::new();
    for (file, text) in manifests.iter().filter(|(file, _)| file != "Cargo.toml") {
        match LAYERS
            .iter()
            .filter(|layer| file.starts_with(layer.directory))
            .max_by_key(|layer| layer.directory.len())
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
            let (own, others) = (member.layer.name, other.layer.name);
            if !member.layer.below.contains(&others) {
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
    fn parse(file: &str, text: &str, layer: &'static Layer) -> Self {
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
    fn formats_stand_alone_below_guests_and_tools() {
        let found = |file: &str, on: &str| {
            let rest = format!("[dependencies]\n{on}.workspace = true\n");
            let core = manifest("runtime/core/Cargo.toml", "baton-core", "");
            let formats = manifest("tools/formats/Cargo.toml", "baton-formats", "");
            let manifests = [core, formats, manifest(file, "trial", &rest)];
            check(&manifests)
                .iter()
                .map(Finding::line)
                .collect::<Vec<usize>>()
        };
        assert_eq!(found("guests/lua/Cargo.toml", "baton-formats"), NOWHERE);
        assert_eq!(found("tools/baton/Cargo.toml", "baton-formats"), NOWHERE);
        assert_eq!(found("runtime/sys/Cargo.toml", "baton-formats"), [4]);
        assert_eq!(found("bindings/ffi/Cargo.toml", "baton-formats"), [4]);
        assert_eq!(found("tools/formats/trial/Cargo.toml", "baton-core"), [4]);
    }

    #[test]
    fn the_layers_below_are_earlier_ones() {
        for (index, layer) in LAYERS.iter().enumerate() {
            for below in layer.below {
                let is_earlier = LAYERS[..index].iter().any(|other| other.name == *below);
                assert!(is_earlier, "{} on {below}", layer.name);
            }
        }
    }

    #[test]
    fn a_crate_outside_of_the_layers_is_found() {
        assert_eq!(
            check(&[manifest("elsewhere/Cargo.toml", "stray", "")]).len(),
            1
        );
    }
}
