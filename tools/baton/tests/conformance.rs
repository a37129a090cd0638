//! The interpreter is a guest of the runtime like others, and passes their suite.

mod harness;

use baton_harness::{cargo, repository, succeed};

#[test]
fn lua_passes_the_suite_for_guests() {
    let scenarios = repository().join("guests/lua/scenarios");
    // Tests are built by one program that holds no lock any more, so this cargo can build.
    let mut suite = cargo();
    suite
        .args(["run", "--offline", "--quiet", "-p", "baton-conformance"])
        .args(["--", "--limit", "100", "sh"])
        .arg(scenarios.join("play"))
        .arg(harness::baton_path())
        .arg(scenarios.join("{}.lua"))
        .current_dir(repository());
    let said = succeed(&mut suite);
    assert!(said.contains(" passed, 0 failed, 0 left out"), "{said}");
}
