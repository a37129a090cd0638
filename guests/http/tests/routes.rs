//! Routes: what patterns match, and which ones are refused.

use baton_http::routes::Routes;

fn made(patterns: &[&str]) -> Routes {
    let mut routes = Routes::default();
    for (pattern, number) in patterns.iter().zip(0..) {
        routes.add(pattern.as_bytes(), number).expect("a pattern");
    }
    routes
}

/// The number of the pattern and what its parameters match.
fn found<'path>(routes: &Routes, path: &'path str) -> Option<(u32, Vec<&'path str>)> {
    let found = routes.find(path.as_bytes())?;
    let text = |span: &baton_http::span::Span| {
        let start = span.start as usize;
        &path[start..start + span.size as usize]
    };
    let values = found.parameters[..found.count as usize].iter();
    Some((found.number, values.map(text).collect()))
}

#[test]
fn the_most_exact_pattern_is_found() {
    let routes = made(&[
        "/notes/:id",
        "/notes/new",
        "/files/*path",
        "/",
        "/*all",
        "/{a}",
    ]);
    assert_eq!(found(&routes, "/notes/new"), Some((1, vec![])));
    assert_eq!(found(&routes, "/notes/7"), Some((0, vec!["7"])));
    assert_eq!(found(&routes, "/files/a/b"), Some((2, vec!["a/b"])));
    assert_eq!(found(&routes, "/"), Some((3, vec![])));
    assert_eq!(found(&routes, "/else"), Some((4, vec!["else"])));
    assert_eq!(found(&routes, "/{a}"), Some((5, vec![])));
}

#[test]
fn what_no_pattern_matches_is_not_found() {
    let routes = made(&["/notes/:id", "/files/*path"]);
    for path in [
        "/",
        "/notes",
        "/notes/",
        "/notes/7/",
        "/notes/7/8",
        "/files/",
        "*",
        "",
    ] {
        assert_eq!(found(&routes, path), None, "{path}");
    }
    assert_eq!(routes.find(b"/notes/\xff"), None);
}

#[test]
fn wrong_patterns_are_refused_with_a_reason() {
    let mut routes = made(&["/notes/:id/x"]);
    for (pattern, why) in [
        ("notes", "it has no '/' at its beginning"),
        ("", "it has no '/' at its beginning"),
        ("/a/*b/c", "'*b' is not at its end"),
        ("/a/:", "':' has no name of letters, digits and '_'"),
        ("/:a-b", "':a-b' has no name of letters, digits and '_'"),
        ("/:a/:a", "it has two parameters 'a'"),
        (
            "/notes/:name/x",
            "it matches the same paths as '/notes/:id/x', which was added before",
        ),
    ] {
        assert_eq!(
            routes.add(pattern.as_bytes(), 1),
            Err(why.to_owned()),
            "{pattern}"
        );
    }
    let many: String = (0..17).map(|at| format!("/:p{at}")).collect();
    assert!(routes.add(many.as_bytes(), 1).is_err());
    assert!(routes.add(b"/\xff", 1).is_err());
}
