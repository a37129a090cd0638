//! A parser of XML reads flame graphs, and jsdom, a browser without a screen, runs their script.

use baton_formats::profile::{Format, Frame, Labels, Measure, Profile};
use serde_json::{Value, json};

use crate::{f_and_g, file, hostile, json, node, python};

/// The boxes and scripts of a flame graph. None if the readers are not installed.
fn parsed(profile: &Profile) -> Option<Value> {
    let mut bytes = Vec::new();
    profile
        .write(Format::FlameGraph, &mut bytes)
        .expect("a vector takes everything");
    let file = file(".svg", &bytes);
    let what = "flame graphs, by a parser of XML";
    python(what, "svg.py", &[file.path()]).map(|text| json(&text))
}

#[test]
fn a_flame_graph_is_xml_with_a_title_for_each_box() {
    let Some(parsed) = parsed(&f_and_g()) else {
        return;
    };
    let titles: Vec<&str> = parsed["boxes"]
        .as_array()
        .expect("boxes")
        .iter()
        .filter_map(|found| found["title"].as_str())
        .collect();
    let expected = [
        "all\n1.00 s, 100.0 %, 100 samples",
        "f (server.lua:12)\n1.00 s, 100.0 %, 100 samples",
        "g (json.lua:3)\n600 ms, 60.0 %, 60 samples",
    ];
    assert_eq!(titles, expected);
}

#[test]
fn hostile_names_stay_within_their_boxes() {
    let plain = parsed(&f_and_g());
    for measure in [Measure::CpuTime, Measure::Waits] {
        let (Some(plain), Some(parsed)) = (&plain, parsed(&hostile(measure))) else {
            return;
        };
        assert_eq!(parsed["tags"], plain["tags"]);
        assert_eq!(parsed["scripts"], plain["scripts"]);
        let text = parsed.to_string();
        assert!(text.contains("</script></text></svg><!--"), "{text}");
    }
}

#[test]
fn a_click_enlarges_a_box_and_escape_shows_all() {
    let mut bytes = Vec::new();
    f_and_g()
        .write(Format::FlameGraph, &mut bytes)
        .expect("a vector takes everything");
    let file = file(".svg", &bytes);
    let what = "zooming into flame graphs, by jsdom";
    let Some(steps) = node(what, "zoom.mjs", file.path()) else {
        return;
    };
    let steps = json(&steps);
    let [before, clicked, escaped] = steps.as_array().expect("steps").as_slice() else {
        panic!("{steps}");
    };
    let all = json!([
        {"title": "all", "text": "all", "x": 10, "width": 1180, "isBelow": false},
        {
            "title": "f (server.lua:12)", "text": "f (server.lua:12)",
            "x": 10, "width": 1180, "isBelow": false,
        },
        {
            "title": "g (json.lua:3)", "text": "g (json.lua:3)",
            "x": 10, "width": 708, "isBelow": false,
        },
    ]);
    assert_eq!(before["boxes"], all);
    let mut enlarged = all.clone();
    enlarged[0]["isBelow"] = json!(true);
    enlarged[1]["isBelow"] = json!(true);
    enlarged[2]["width"] = json!(1180);
    assert_eq!(clicked["boxes"], enlarged);
    let details = "g (json.lua:3): 600 ms, 60.0 %, 60 samples";
    assert_eq!(clicked["details"], details);
    assert_eq!(escaped["boxes"], all);
}

#[test]
fn a_click_hides_what_is_beside_a_box_and_spreads_what_is_above() {
    let mut profile = Profile::new(Measure::CpuTime, "");
    for (names, value) in [
        (&["wide"][..], 600),
        (&["left", "target"], 300),
        (&["right", "target"], 100),
    ] {
        let stack = profile.stack(names.iter().map(|name| Frame::lua(name, "", 0)));
        profile.add(stack, value, 1, Labels::default());
    }
    let mut bytes = Vec::new();
    profile
        .write(Format::FlameGraph, &mut bytes)
        .expect("a vector takes everything");
    let file = file(".svg", &bytes);
    let what = "zooming into flame graphs, by jsdom";
    let Some(steps) = node(what, "zoom.mjs", file.path()) else {
        return;
    };
    let steps = json(&steps);
    let places = |step: usize| -> Vec<(&str, f64, f64)> {
        let boxes = steps[step]["boxes"].as_array().expect("boxes").iter();
        let mut places: Vec<(&str, f64, f64)> = boxes
            .map(|shown| {
                let number = |name: &str| shown[name].as_f64().expect("a number").round();
                let title = shown["title"].as_str().expect("a title");
                (title, number("x"), number("width"))
            })
            .collect();
        places.sort_by(|one, other| one.0.cmp(other.0));
        places
    };
    let all = [
        ("all", 10.0, 1180.0),
        ("left", 718.0, 354.0),
        ("right", 1072.0, 118.0),
        ("target", 718.0, 472.0),
        ("wide", 10.0, 708.0),
    ];
    assert_eq!(places(0), all);
    let enlarged = [
        ("all", 10.0, 1180.0),
        ("left", 10.0, 885.0),
        ("right", 895.0, 295.0),
        ("target", 10.0, 1180.0),
    ];
    assert_eq!(places(1), enlarged);
    assert_eq!(places(2), all);
}
