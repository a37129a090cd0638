//! speedscope's published schema describes its format.

use baton_formats::profile::{Format, Measure, Profile};

use crate::{f_and_g, file, hostile, python, readers};

/// What the schema forbids of a file; nothing if it is right. None if it is not installed.
fn violations(bytes: &[u8]) -> Option<String> {
    let schema =
        readers().join("node/node_modules/speedscope/dist/release/file-format-schema.json");
    let file = file(".json", bytes);
    let what = "profiles, by speedscope's schema";
    python(what, "speedscope.py", &[&schema, file.path()])
}

#[test]
fn profiles_are_valid_by_the_schema() {
    let profiles = [
        f_and_g(),
        hostile(Measure::Waits),
        Profile::new(Measure::Allocation, ""),
    ];
    for profile in profiles {
        let mut bytes = Vec::new();
        profile
            .write(Format::Speedscope, &mut bytes)
            .expect("a vector takes everything");
        let Some(violations) = violations(&bytes) else {
            return;
        };
        assert_eq!(violations, "", "{profile:?}");
    }
}

#[test]
fn another_file_is_not_valid_by_the_schema() {
    let Some(violations) = violations(b"{\"profiles\": [{}]}") else {
        return;
    };
    assert!(
        violations.contains("'shared' is a required property"),
        "{violations}"
    );
}
