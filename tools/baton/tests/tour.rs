//! Tests the tour under `examples`, which many people run first.

mod harness;

use std::path::Path;

use harness::baton;

#[test]
fn the_tour_shows_what_it_announces() {
    let tour = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tour.lua");
    let outcome = baton().arg(tour).run();
    outcome.succeeds();
    assert!(
        outcome.stderr.is_empty(),
        "the tour wrote to stderr\n{outcome}"
    );
    let expected = [
        "1. Processes and a channel\n",
        "   > 3 workers squared 9 numbers; the sum of the squares is 285\n",
        "2. A call that blocks, beside a clock\n",
        "   > tick 3\n",
        "   > os.execute returned true after ",
        "   > the clock ticked on\n",
        "3. A loop without end\n",
        "   > it has turned more than a thousand times: true; we were woken 10 times meanwhile\n",
        "   > killed: join gives false, \"no more of this\"; its variable was closed: true\n",
        "   > its status is \"dead\"\n",
        "4. A process that fails\n",
        "   > join gives false, \"",
        ": the ice is too thin\"\n",
        "5. Many of them\n",
        "   > 10000 of them slept and ended, in ",
        "\nThat was the tour, in ",
    ];
    let mut rest = outcome.stdout.as_str();
    for line in expected {
        let Some(at) = rest.find(line) else {
            panic!("the tour does not print {line:?} where it should\n{outcome}");
        };
        rest = &rest[at + line.len()..];
    }
}
