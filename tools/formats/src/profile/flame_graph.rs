//! A flame graph: an SVG that needs no other file.
//!
//! Each box is a function; its width is what was measured while it was on the stack, and the boxes
//! above it are what it called. In a browser a script fits the picture to the window, shows
//! details, zooms into a box, and finds functions by their names, with the mouse and with keys.
//! Elsewhere it is a picture of a fixed shape. Names are in text only, never in the script.
//!
//! Rejected, such as the crate `inferno`: docs/adr/0048.

mod tree;

use std::cmp::Reverse;
use std::fmt::Write;

use super::merged::{Merged, Place};
use super::{FrameKind, Profile};
use crate::{quantity, text};
use tree::{FlameBox, Layout};

const STYLE: &str = include_str!("flame_graph/style.css");
const SCRIPT: &str = include_str!("flame_graph/script.js");

/// The width of the picture in pixels, where no script fits it, and its empty border.
const WIDTH: f64 = 1200.0;
const BORDER: f64 = 10.0;

/// The height of a row of boxes, of the heading above, and of the line of details below.
const ROW: usize = 18;
const HEADING: usize = 78;
const DETAILS: usize = 30;

/// The width of a character in a box. The script gets it, too.
const CHARACTER: f64 = 7.2;

/// The maximal number of lines of a function that its box names.
const LINES: usize = 5;

/// The number of shades for each kind of box, as the style sheet has them.
const SHADES: u32 = 6;

/// Draws a profile.
pub(super) fn drawn(profile: &Profile) -> String {
    let merged = Merged::of(profile);
    let labels: Vec<String> = merged.places.iter().map(Place::label).collect();
    let classes: Vec<String> = merged
        .places
        .iter()
        .zip(&labels)
        .map(|(place, label)| class(place, label))
        .collect();
    let layout = Layout::of(&merged, &labels);
    let height = HEADING + DETAILS + (layout.depth + 1) * ROW;
    let mut svg = String::new();
    begin(&mut svg, profile, &layout, height);
    for flame_box in &layout.boxes {
        let (label, class) = match flame_box.place {
            Some(place) => (&labels[place as usize][..], &classes[place as usize][..]),
            None => ("all", "u"),
        };
        let details = details(profile, flame_box);
        draw_box(&mut svg, flame_box, label, class, &details, height);
    }
    svg.push_str("</g>\n");
    let y = height - DETAILS / 2;
    push(
        &mut svg,
        format_args!("<text class=\"details\" x=\"{BORDER}\" y=\"{y}\"></text>\n"),
    );
    push(
        &mut svg,
        format_args!("<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>\n"),
    );
    svg
}

/// The head of the file, up to the first box.
fn begin(svg: &mut String, profile: &Profile, layout: &Layout, height: usize) {
    let heading = text::xml(&profile.heading());
    push(
        svg,
        format_args!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
             data-width=\"{WIDTH}\" data-left=\"{BORDER}\" data-character=\"{CHARACTER}\">\n\
             <title>{heading}</title>\n<style>\n{STYLE}</style>\n\
             <rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n\
             <text class=\"heading\" x=\"{BORDER}\" y=\"24\">{heading}</text>\n\
             <text class=\"note\" x=\"{BORDER}\" y=\"44\">{}</text>\n\
             <text class=\"search\" x=\"{BORDER}\" y=\"64\"></text>\n<g class=\"boxes\">\n",
            text::xml(&note(profile, layout)),
        ),
    );
}

/// The line below the heading.
fn note(profile: &Profile, layout: &Layout) -> String {
    let mut note = format!(
        "{} in {} {}",
        profile.measure.unit().shown(profile.total()),
        profile.count(),
        profile.measure.counted()
    );
    if !profile.duration.is_zero() {
        note.push_str(" over ");
        note.push_str(&quantity::time(profile.duration_nanos()));
    }
    if layout.left_out > 0 {
        let left_out = layout.left_out;
        push(
            &mut note,
            format_args!("; {left_out} small boxes are left out"),
        );
    }
    note
}

/// What a tooltip says of a box, after its name.
fn details(profile: &Profile, flame_box: &FlameBox) -> String {
    let mut details = format!(
        "{}, {}, {} {}",
        profile.measure.unit().shown(flame_box.value),
        quantity::percent(flame_box.value, profile.total()),
        flame_box.count,
        profile.measure.counted()
    );
    let mut lines: Vec<(u32, u64)> = flame_box.lines.clone().into_iter().collect();
    lines.sort_by_key(|&(line, value)| (Reverse(value), line));
    for (number, &(line, value)) in lines.iter().take(LINES).enumerate() {
        details.push_str(if number == 0 { "\n" } else { ", " });
        let share = quantity::percent(value, profile.total());
        push(&mut details, format_args!("line {line}: {share}"));
    }
    if lines.len() > LINES {
        let more = lines.len() - LINES;
        push(&mut details, format_args!(", {more} more"));
    }
    details
}

fn draw_box(
    svg: &mut String,
    flame_box: &FlameBox,
    label: &str,
    class: &str,
    details: &str,
    height: usize,
) {
    let x = BORDER + flame_box.left * span();
    let width = flame_box.width * span();
    let y = height - DETAILS - (flame_box.depth + 1) * ROW;
    let details: Vec<_> = details.lines().map(text::xml).collect();
    push(
        svg,
        format_args!(
            "<g class=\"box {class}\" data-x=\"{:.9}\" data-w=\"{:.9}\" data-d=\"{}\">\
             <title>{}\n{}</title>\
             <rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\"/>\
             <text x=\"{:.2}\" y=\"{}\">{}</text></g>\n",
            flame_box.left,
            flame_box.width,
            flame_box.depth,
            text::xml(label),
            details.join("\n"),
            ROW - 1,
            x + 4.0,
            y + 13,
            text::xml(&fitting(label, width)),
        ),
    );
}

/// The width of the widest box, in pixels.
fn span() -> f64 {
    WIDTH - 2.0 * BORDER
}

/// The part of a label that fits into a box of this width; empty if that is not worth reading.
fn fitting(label: &str, width: f64) -> String {
    let characters = ((width - 8.0) / CHARACTER).max(0.0) as usize;
    match characters {
        0..3 => String::new(),
        limit => text::shortened(label, limit),
    }
}

/// The class of a place in the style sheet: the letter of its kind, and a shade by its name.
fn class(place: &Place, label: &str) -> String {
    let letter = match place {
        Place::Function {
            kind: FrameKind::Lua,
            ..
        } => 'l',
        Place::Function {
            kind: FrameKind::C, ..
        } => 'c',
        Place::Wait { .. } | Place::Idle => 'w',
        Place::Vm(_) | Place::Unknown => return "u".to_owned(),
    };
    let sum = label.bytes().fold(7_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    format!("{letter}{}", sum % SHADES)
}

/// Appends formatted text. A string takes everything.
fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments)
        .expect("a string takes everything");
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::profile::{Frame, Labels, Measure};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn of_names(stacks: &[Vec<String>]) -> String {
        let mut profile = Profile::new(Measure::CpuTime, stacks.concat().concat());
        for names in stacks {
            let stack = profile.stack(names.iter().map(|name| Frame::lua(name, name, 1)));
            profile.add(stack, 1000, 1, Labels::default());
        }
        drawn(&profile)
    }

    /// The picture without its style and its script.
    fn drawing(svg: &str) -> String {
        let (before, rest) = svg.split_once("<style>").expect("a style");
        let (_, after) = rest.split_once("</style>").expect("its end");
        let (boxes, _) = after.split_once("<script>").expect("a script");
        format!("{before}{boxes}")
    }

    proptest! {
        #[test]
        fn no_name_makes_markup(stacks in vec(vec(any::<String>(), 0..4), 0..6)) {
            let svg = of_names(&stacks);
            prop_assert_eq!(svg.matches("<script>").count(), 1);
            prop_assert_eq!(svg.matches("]]>").count(), 1);
            let drawing = drawing(&svg);
            let known = ["?xml", "svg", "title", "/title", "rect", "text", "/text", "g", "/g"];
            for tag in drawing.split('<').skip(1) {
                let name = tag.split([' ', '>']).next().unwrap_or_default();
                prop_assert!(known.contains(&name), "{}", tag);
            }
            prop_assert!(!drawing.contains(|c: char| c.is_control() && c != '\n'));
            prop_assert_eq!(
                drawing.matches("<g ").count(),
                drawing.matches("</g>").count()
            );
        }
    }

    #[test]
    fn a_box_says_what_it_is_and_what_it_cost() {
        let mut profile = Profile::new(Measure::Waits, "a.lua");
        let outer = Frame::lua("serve", "a.lua", 3).beginning_at(1);
        let stack = profile.stack([Frame::c("lock", ""), outer.clone()]);
        let labels = Labels::default().waiting_for("mutex <m>", "p");
        profile.add(stack, 750, 3, labels);
        let stack = profile.stack([outer]);
        profile.add(stack, 250, 1, Labels::default());
        let svg = drawn(&profile);
        for expected in [
            "<title>Waits of a.lua</title>",
            "<title>all\n1.00 µs, 100.0 %, 4 samples</title>",
            "<title>serve (a.lua:1)\n1.00 µs, 100.0 %, 4 samples\nline 3: 100.0 %</title>",
            "<title>lock [C]\n750 ns, 75.0 %, 3 samples</title>",
            "<title>waits for mutex &lt;m&gt;\n750 ns, 75.0 %, 3 samples</title>",
        ] {
            assert!(svg.contains(expected), "{expected}\n{svg}");
        }
        assert_eq!(svg.matches("<g class=\"box ").count(), 4);
    }

    #[test]
    fn a_box_names_the_lines_that_cost_most() {
        let mut profile = Profile::new(Measure::CpuTime, "a.lua");
        for (line, value) in [
            (11, 100),
            (12, 300),
            (13, 50),
            (14, 50),
            (15, 20),
            (16, 480),
        ] {
            let stack = profile.stack([Frame::lua("f", "a.lua", line).beginning_at(10)]);
            profile.add(stack, value, 1, Labels::default());
        }
        let lines = "line 16: 48.0 %, line 12: 30.0 %, line 11: 10.0 %, line 13: 5.0 %, \
                     line 14: 5.0 %, 1 more</title>";
        let svg = drawn(&profile);
        assert!(svg.contains(lines), "{svg}");
    }

    #[test]
    fn an_empty_profile_is_one_box() {
        let svg = drawn(&Profile::new(Measure::Allocation, ""));
        assert_eq!(svg.matches("<g class=\"box ").count(), 1);
        assert!(svg.contains("<title>Allocation</title>"));
    }

    #[test]
    fn a_label_is_cut_to_the_width_of_its_box() {
        assert_eq!(fitting("abcdefgh", 8.0 + 8.0 * CHARACTER + 0.1), "abcdefgh");
        assert_eq!(fitting("abcdefgh", 8.0 + 5.0 * CHARACTER + 0.1), "abcd…");
        assert_eq!(fitting("abcdefgh", 20.0), "");
    }
}
