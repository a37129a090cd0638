//! Tests the book under `docs/book`: runs every program in it and compares its output. Also tests
//! that the tests named in `docs/mapping.md` exist.
//!
//! A block marked `lua` is a whole program; the next block, marked `text`, is its output. A comment
//! before the block can change that. `<!-- excerpt: why it cannot run -->`: the program is not run.
//! `<!-- fails: part of the message -->`: it ends with status 1. `<!-- simulate 1-1000, fails: ...
//! -->`: it is run with these seeds.

mod harness;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use harness::{baton, missing};

/// Makes a test of each page, and a test that fails if a page is missing here.
macro_rules! pages {
    ($($name:ident = $file:literal),+ $(,)?) => {
        $(#[test]
        fn $name() {
            assert_programs_print_what_the_page_says($file);
        })+

        #[test]
        fn every_page_is_tested() {
            let named = [$($file),+];
            for page in pages_there() {
                assert!(named.contains(&page.as_str()), "no test runs the programs of {page}");
            }
        }
    };
}

pages! {
    introduction = "introduction.md",
    installing = "installing.md",
    first_steps = "first-steps.md",
    prompt = "prompt.md",
    processes = "processes.md",
    scheduling = "scheduling.md",
    deadlines = "deadlines.md",
    service = "service.md",
    logging = "logging.md",
    testing = "testing.md",
    when_it_hangs = "when-it-hangs.md",
    when_it_is_slow = "when-it-is-slow.md",
    when_it_grows = "when-it-grows.md",
    metrics = "metrics.md",
    debugging = "debugging.md",
    synchronization = "synchronization.md",
    atomic = "atomic.md",
    blocking = "blocking.md",
    policies = "policies.md",
    http_client = "http-client.md",
    networking = "networking.md",
    ffi = "ffi.md",
    idle = "idle.md",
    web_service = "web-service.md",
    from_node = "from-node.md",
    from_python = "from-python.md",
    from_go = "from-go.md",
    from_copas = "from-copas.md",
    from_openresty = "from-openresty.md",
    from_tarantool = "from-tarantool.md",
    luarocks = "luarocks.md",
    more_cores = "more-cores.md",
    other_cores = "other-cores.md",
    what_can_be_sent = "what-can-be-sent.md",
    more_machines = "more-machines.md",
    embedding = "embedding.md",
    guests = "guests.md",
    guests_several_vms = "guests-several-vms.md",
    reference_process = "reference-process.md",
    reference_ffi = "reference-ffi.md",
    reference_inspect = "reference-inspect.md",
    reference_json = "reference-json.md",
    reference_baton_json = "reference-baton-json.md",
    reference_log = "reference-log.md",
    reference_cluster = "reference-cluster.md",
    reference_http = "reference-http.md",
    reference_net = "reference-net.md",
    reference_web = "reference-web.md",
    reference_vm = "reference-vm.md",
    reference_header = "reference-header.md",
    glossary = "glossary.md",
}

#[test]
fn the_summary_and_the_directory_have_the_same_pages() {
    let summary = read("SUMMARY.md");
    let mut listed: Vec<&str> = summary
        .split("](")
        .skip(1)
        .filter_map(|after| after.split(')').next())
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, pages_there());
}

/// Prefixes of test paths in the mapping tables, and their directories relative to the book's
/// source.
const PLACES_OF_TESTS: [(&str, &str); 5] = [
    ("sched/", "../../../runtime/core/src/sched/tests/"),
    ("vm/", "../../../runtime/core/tests/"),
    ("sys/", "../../../runtime/sys/tests/"),
    ("lua/", "../../../tools/baton/tests/lua/"),
    ("baton/", "../../../tools/baton/tests/"),
];

#[test]
fn the_tests_that_the_mapping_names_are_there() {
    let page = read("../../mapping.md");
    let (_, section) = page
        .split_once("## Zephyr's test suites")
        .expect("the section is there");
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1);
    let mut named = 0;
    for row in rows {
        let answers = row.rsplit('|').nth(1).expect("a last column");
        let mut file = None;
        for word in answers.split('`').skip(1).step_by(2) {
            if word.contains('/') {
                file = Some((word, read(&place_of_test(word))));
                continue;
            }
            let (path, text) = file.as_ref().expect("a file comes before its tests");
            let is_there = [format!("fn {word}("), format!("function case.{word}(")];
            assert!(
                is_there.iter().any(|line| text.contains(line)),
                "no {word} in {path}"
            );
            named += 1;
        }
        assert!(file.is_some(), "no file in {row}");
    }
    assert!(named > 50, "{named} tests are named");
}

fn place_of_test(path: &str) -> String {
    let place = PLACES_OF_TESTS.iter().find_map(|(prefix, place)| {
        let rest = path.strip_prefix(prefix)?;
        Some(format!("{place}{rest}"))
    });
    place.unwrap_or_else(|| panic!("{path} is in none of the places of tests"))
}

#[test]
fn the_page_of_policies_and_the_built_in_ones_have_the_same_modules() {
    let page = read("policies.md");
    let (_, table) = page.split_once("| module |").expect("the table is there");
    let rows = table
        .lines()
        .take_while(|line| line.starts_with('|') || line.ends_with('|'));
    let listed: Vec<&str> = rows
        .skip(2)
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    let built_in = built_in_policies();
    assert!(built_in.len() > 30, "{built_in:?}");
    let covers = |entry: &str, name: &str| {
        name.strip_prefix(entry)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    for entry in &built_in {
        let is_listed = listed.iter().any(|name| covers(entry, name));
        assert!(
            is_listed,
            "policies.md does not list `{entry}`, which has a built-in policy"
        );
    }
    for name in listed {
        let is_built_in = built_in.iter().any(|entry| covers(entry, name));
        assert!(
            is_built_in,
            "policies.md lists `{name}`, which has no built-in policy"
        );
    }
}

/// Returns the modules that have a built-in policy, by the names that programs require.
fn built_in_policies() -> Vec<String> {
    let source = read("../../../guests/lua/c/calls/built_in_policies.c");
    let names = source.split(".name = \"").skip(1);
    let names = names.filter_map(|rest| rest.split('"').next());
    let required = |name: &str| {
        let name = name.trim_start_matches("C-").trim_start_matches('_');
        let name = name.strip_suffix(".core").unwrap_or(name);
        name.trim_end_matches('.').to_owned()
    };
    names.map(required).collect()
}

#[test]
fn a_block_that_breaks_the_rules_is_found() {
    let refused = |page: &str| examples_in(page).expect_err("the page breaks a rule");
    assert!(refused("```lua\nprint(1)\n```\nno output\n").contains("line 1"));
    assert!(refused("```lua\nprint(1)\n```\n```sh\n1\n```\n").contains("line 1"));
    assert!(refused("<!-- excerpt: -->\n```lua\nprint(1)\n```\n").contains("says no reason"));
    assert!(refused("\n```lua\nprint(1)\n").contains("line 2"));
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src")
}

fn read(page: &str) -> String {
    std::fs::read_to_string(source().join(page)).unwrap_or_else(|why| panic!("{page}: {why}"))
}

/// Returns the names of all pages except the summary, in order.
fn pages_there() -> Vec<String> {
    let entries = std::fs::read_dir(source()).expect("the book is there");
    let mut pages: Vec<String> = entries
        .map(|entry| entry.expect("a directory entry can be read").file_name())
        .map(|name| name.into_string().expect("a page's name is text"))
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .collect();
    pages.sort_unstable();
    pages
}

/// A program of a page, and its expected result.
#[derive(Debug)]
struct Example {
    line: usize,
    program: String,
    output: String,
    /// Part of the message with which it fails; none if it succeeds.
    failure: Option<String>,
    /// The seeds that it runs with.
    seeds: Option<String>,
}

/// A block of the page: its first line, its language, its text, and the comment before it.
struct Block {
    line: usize,
    language: String,
    text: String,
    comment: String,
}

fn assert_programs_print_what_the_page_says(page: &str) {
    let examples = examples_in(&read(page)).unwrap_or_else(|why| panic!("{page}: {why}"));
    let mut wrong = String::new();
    for example in examples {
        let outcome = match &example.seeds {
            None => baton().arg("-").stdin(&example.program).run(),
            Some(seeds) => baton()
                .arg("--simulate")
                .arg(seeds)
                .code(&example.program)
                .run(),
        };
        let place = format!("the program at {page}, line {}", example.line);
        if example.failure.is_none() && missing::is_for_want_of_a_package(&outcome, &place) {
            continue;
        }
        let is_told = example
            .seeds
            .as_ref()
            .is_some_and(|seeds| seeds.contains('-'));
        let ended_well = match &example.failure {
            None => outcome.status.success() && (is_told || outcome.stderr.is_empty()),
            Some(message) => outcome.status.code() == Some(1) && outcome.stderr.contains(message),
        };
        if !ended_well || outcome.stdout != example.output {
            writeln!(wrong, "{page}, line {}:\n{outcome}", example.line)
                .expect("a string takes text");
        }
    }
    assert!(wrong.is_empty(), "these are not as the page says:\n{wrong}");
}

/// Returns the programs of a page that can be run; an error if a block breaks the rules.
fn examples_in(page: &str) -> Result<Vec<Example>, String> {
    let mut examples = Vec::new();
    let mut blocks = blocks_in(page)?.into_iter();
    while let Some(block) = blocks.next() {
        if block.language != "lua" {
            continue;
        }
        if let Some(reason) = block.comment.strip_prefix("excerpt:") {
            if reason.trim().is_empty() {
                return Err(format!("line {}: the excerpt says no reason", block.line));
            }
            continue;
        }
        let output = blocks
            .next()
            .filter(|next| next.language == "text")
            .ok_or(format!(
                "line {}: a program must be followed by a block 'text', or come after a comment \
             'excerpt:'",
                block.line
            ))?;
        let (seeds, remark) = match block.comment.strip_prefix("simulate ") {
            None => (None, block.comment.as_str()),
            Some(rest) => {
                let (seeds, remark) = rest.split_once(", ").unwrap_or((rest, ""));
                (Some(seeds.to_owned()), remark)
            }
        };
        examples.push(Example {
            line: block.line,
            failure: remark
                .strip_prefix("fails:")
                .map(|message| message.trim().to_owned()),
            program: block.text,
            output: output.text,
            seeds,
        });
    }
    Ok(examples)
}

fn blocks_in(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut comment = String::new();
    for (index, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some(Block {
                    line: index + 1,
                    language: language.to_owned(),
                    text: String::new(),
                    comment: std::mem::take(&mut comment),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) if line.trim().is_empty() => {}
            (None, None) => {
                let inside = line
                    .strip_prefix("<!--")
                    .and_then(|rest| rest.strip_suffix("-->"));
                comment = inside.unwrap_or_default().trim().to_owned();
            }
        }
    }
    match open {
        None => Ok(blocks),
        Some(block) => Err(format!("line {}: the block has no end", block.line)),
    }
}
