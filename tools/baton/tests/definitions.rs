//! Tests the definitions for the Lua language server. They are not run, so only these tests keep
//! them correct.

mod harness;

use std::path::{Path, PathBuf};

use harness::{Outcome, baton};

fn definitions() -> PathBuf {
    library().join("process.lua")
}

fn library() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../editor/lua-language-server/library/baton")
}

fn compare(definitions: &Path) -> Outcome {
    baton().script("definitions.lua").arg(definitions).run()
}

#[test]
fn the_definitions_and_the_module_have_the_same_names() {
    compare(&definitions()).succeeds().quietly().wrote("");
}

#[test]
fn the_definitions_of_the_ffi_have_its_names() {
    let file = library().join("ffi.lua");
    let run = baton().script("definitions.lua").arg(&file).arg("ffi");
    run.run().succeeds().quietly().wrote("");
    baton().arg(file).run().succeeds().quietly().wrote("");
}

#[test]
fn the_definitions_of_inspect_have_its_names() {
    let file = library().join("inspect.lua");
    let run = baton().script("definitions.lua").arg(&file).arg("inspect");
    run.run().succeeds().quietly().wrote("");
    baton().arg(file).run().succeeds().quietly().wrote("");
}

#[test]
fn the_definitions_of_json_and_of_logs_have_their_names() {
    for module in ["json", "log"] {
        let file = library().join(format!("{module}.lua"));
        let run = baton().script("definitions.lua").arg(&file).arg(module);
        run.run().succeeds().quietly().wrote("");
        baton().arg(file).run().succeeds().quietly().wrote("");
    }
}

#[test]
fn the_definitions_of_the_cluster_have_its_names() {
    let file = library().join("cluster.lua");
    let run = baton().arg("--simulate").arg("1").script("definitions.lua");
    let run = run.arg(&file).arg("cluster").run();
    run.succeeds().quietly().wrote("");
    baton().arg(file).run().succeeds().quietly().wrote("");
}

#[test]
fn the_definitions_of_the_web_have_its_names() {
    let file = library().join("web.lua");
    let run = baton().script("definitions.lua").arg(&file).arg("web");
    run.run().succeeds().quietly().wrote("");
    baton().arg(file).run().succeeds().quietly().wrote("");
}

#[test]
fn the_definitions_of_net_have_its_names() {
    let file = library().join("net.lua");
    let run = baton().script("definitions.lua").arg(&file).arg("net");
    run.run().succeeds().quietly().wrote("");
    baton().arg(file).run().succeeds().quietly().wrote("");
}

#[test]
fn the_definitions_of_http_have_its_names() {
    let file = library().join("http.lua");
    let run = baton().script("definitions.lua").arg(&file).arg("http");
    run.run().succeeds().quietly().wrote("");
    baton().arg(file).run().succeeds().quietly().wrote("");
}

#[test]
#[cfg(target_os = "linux")]
fn the_definitions_of_vms_have_their_names() {
    let file = library().join("vm.lua");
    let run = baton().script("definitions.lua").arg(&file).arg("vm");
    run.run().succeeds().quietly().wrote("");
    baton().arg(file).run().succeeds().quietly().wrote("");
}

#[test]
fn a_name_that_only_one_of_them_has_is_found() {
    let text = std::fs::read_to_string(definitions()).expect("the definitions are there");
    let wrong = text.replace("function process.sleep(", "function process.snooze(");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("definitions-{}.lua", std::process::id()));
    std::fs::write(&file, wrong).expect("a file can be written");
    let outcome = compare(&file);
    std::fs::remove_file(&file).expect("the file can be removed");
    outcome.succeeds().wrote(
        "process.snooze is defined, but not there\nprocess.sleep is there, but not defined\n",
    );
}

#[test]
fn the_definitions_are_a_lua_program() {
    baton()
        .arg(definitions())
        .run()
        .succeeds()
        .quietly()
        .wrote("");
}
