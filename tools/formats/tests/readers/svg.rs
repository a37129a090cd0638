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
        "f (server.lua:12)\n1.00 s, 100.0 %, 100 samples\nline 14: 100.0 %",
        "g (json.lua:3)\n600 ms, 60.0 %, 60 samples\nline 7: 60.0 %",
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

/// What can be seen of a flame graph without its script, and after each of these steps. None if the
/// reader is not installed.
fn seen(profile: &Profile, steps: &[&str]) -> Option<Vec<Value>> {
    let mut bytes = Vec::new();
    profile
        .write(Format::FlameGraph, &mut bytes)
        .expect("a vector takes everything");
    let file = file(".svg", &bytes);
    let what = "the script of flame graphs, by jsdom";
    let seen = json(&node(what, "flame_graph.mjs", file.path(), steps)?);
    let seen = seen.as_array().expect("views").clone();
    assert_eq!(seen.len(), steps.len() + 1);
    Some(seen)
}

/// The title, left edge and width of each box.
fn places(view: &Value) -> Vec<(&str, f64, f64)> {
    let boxes = view["boxes"].as_array().expect("boxes").iter();
    let mut places: Vec<(&str, f64, f64)> = boxes
        .map(|shown| {
            let number = |name: &str| shown[name].as_f64().expect("a number").round();
            let title = shown["title"].as_str().expect("a title");
            (title, number("x"), number("width"))
        })
        .collect();
    places.sort_by(|one, other| one.0.cmp(other.0));
    places
}

/// The titles of the boxes that have a property.
fn titles<'a>(view: &'a Value, property: &str) -> Vec<&'a str> {
    let boxes = view["boxes"].as_array().expect("boxes").iter();
    let with = boxes.filter(|shown| shown[property] == json!(true));
    with.filter_map(|shown| shown["title"].as_str()).collect()
}

#[test]
fn a_click_enlarges_a_box_and_escape_shows_all() {
    let Some(views) = seen(&f_and_g(), &["click g", "keys Escape"]) else {
        return;
    };
    let all = [
        ("all", 10.0, 1180.0),
        ("f (server.lua:12)", 10.0, 1180.0),
        ("g (json.lua:3)", 10.0, 708.0),
    ];
    assert_eq!(places(&views[0]), all);
    let mut enlarged = all;
    enlarged[2].2 = 1180.0;
    assert_eq!(places(&views[1]), enlarged);
    assert_eq!(titles(&views[1], "isBelow"), ["all", "f (server.lua:12)"]);
    let details = "g (json.lua:3): 600 ms, 60.0 %, 60 samples; line 7: 60.0 %";
    assert_eq!(views[1]["details"], details);
    assert_eq!(places(&views[2]), all);
    let nothing: [&str; 0] = [];
    assert_eq!(titles(&views[2], "isBelow"), nothing);
}

/// 600 in `wide`, 300 in `left` of `target`, 100 in `right` of `target`.
fn with_target() -> Profile {
    let mut profile = Profile::new(Measure::CpuTime, "");
    for (names, value) in [
        (&["wide"][..], 600),
        (&["left", "target"], 300),
        (&["right", "target"], 100),
    ] {
        let stack = profile.stack(names.iter().map(|name| Frame::lua(name, "", 0)));
        profile.add(stack, value, 1, Labels::default());
    }
    profile
}

#[test]
fn a_click_hides_what_is_beside_a_box_and_spreads_what_is_above() {
    let Some(views) = seen(&with_target(), &["click target", "keys Escape"]) else {
        return;
    };
    let all = [
        ("all", 10.0, 1180.0),
        ("left", 718.0, 354.0),
        ("right", 1072.0, 118.0),
        ("target", 718.0, 472.0),
        ("wide", 10.0, 708.0),
    ];
    assert_eq!(places(&views[0]), all);
    let enlarged = [
        ("all", 10.0, 1180.0),
        ("left", 10.0, 885.0),
        ("right", 895.0, 295.0),
        ("target", 10.0, 1180.0),
    ];
    assert_eq!(places(&views[1]), enlarged);
    assert_eq!(places(&views[2]), all);
}

#[test]
fn the_picture_fits_the_window_and_keeps_what_is_enlarged() {
    let steps = ["width 420", "click target", "width 820"];
    let Some(views) = seen(&with_target(), &steps) else {
        return;
    };
    assert_eq!(views[1]["width"], "100%");
    let narrow = [
        ("all", 10.0, 400.0),
        ("left", 250.0, 120.0),
        ("right", 370.0, 40.0),
        ("target", 250.0, 160.0),
        ("wide", 10.0, 240.0),
    ];
    assert_eq!(places(&views[1]), narrow);
    let enlarged = [
        ("all", 10.0, 800.0),
        ("left", 10.0, 600.0),
        ("right", 610.0, 200.0),
        ("target", 10.0, 800.0),
    ];
    assert_eq!(places(&views[3]), enlarged);
}

#[test]
fn text_and_regular_expressions_find_boxes() {
    let steps = [
        "keys / T A R x Backspace",
        "keys Enter n",
        "keys Escape Escape",
        "keys ~ ^ ( l | w ) Enter",
        "keys ~ (",
    ];
    let Some(views) = seen(&with_target(), &steps) else {
        return;
    };
    assert_eq!(views[0]["search"], "");
    assert_eq!(views[1]["search"], "/TAR_   1 found, 40.0 %");
    assert_eq!(titles(&views[1], "isFound"), ["target"]);
    assert_eq!(views[2]["search"], "/TAR   1 found, 40.0 %");
    assert_eq!(titles(&views[2], "isChosen"), ["target"]);
    let nothing: [&str; 0] = [];
    assert_eq!(titles(&views[3], "isFound"), nothing);
    assert_eq!(titles(&views[3], "isChosen"), nothing);
    let help = views[3]["search"].as_str();
    assert!(help.is_some_and(|help| help.starts_with("find: / text")));
    assert_eq!(views[4]["search"], "~^(l|w)   2 found, 90.0 %");
    assert_eq!(views[5]["search"], "~(_   is no regular expression");
}

/// What stands on a found box is a part of it.
#[test]
fn the_share_of_what_is_found_counts_nothing_twice() {
    let Some(views) = seen(&f_and_g(), &["keys / l u a"]) else {
        return;
    };
    assert_eq!(views[1]["search"], "/lua_   2 found, 100.0 %");
}

#[test]
fn arrows_move_from_box_to_box_and_enter_enlarges() {
    let steps = [
        "keys ArrowUp",
        "keys ArrowUp ArrowRight",
        "keys ArrowUp ArrowRight",
        "keys ArrowDown Enter",
    ];
    let Some(views) = seen(&with_target(), &steps) else {
        return;
    };
    let chosen: Vec<_> = views.iter().map(|view| titles(view, "isChosen")).collect();
    assert_eq!(
        chosen,
        [&[][..], &["all"], &["target"], &["right"], &["target"]]
    );
    assert_eq!(views[3]["details"], "right: 100 ns, 10.0 %, 1 samples");
    assert_eq!(places(&views[4])[0], ("all", 10.0, 1180.0));
    assert_eq!(places(&views[4]).len(), 4);
}
