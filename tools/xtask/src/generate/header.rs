//! Makes the book's page about the C header from the header's comments.

use std::fmt::Write;

/// The mark of a comment that begins a section.
const SECTION: &str = "/* {====";

/// A comment and the declarations that it is about. One of them may be empty.
#[derive(Debug, Default, PartialEq, Eq)]
struct Declared {
    comment: String,
    code: String,
}

/// The page about some headers, each with its name and text.
pub(super) fn page(headers: &[(&str, String)]) -> Result<String, String> {
    let mut page = "<!-- Made from the headers in bindings/capi/include by: cargo xtask generate \
                    -->\n# The header\n\n"
        .to_owned();
    page += "[Writing a guest](guests.md) says how to begin. `#include <baton.h>` includes both \
             files.\n";
    for (name, text) in headers {
        let mut sections = text.split(SECTION);
        let head = sections.next().unwrap_or_default();
        let about = head
            .split_once("*/")
            .ok_or(format!("{name} begins with no comment"))?
            .0;
        write!(page, "\n## {name}\n\n{}\n", words_of(about)).expect("a string takes text");
        for entry in entries(after_guard(head)) {
            page += &shown(&entry);
        }
        for section in sections {
            page += &section_of(name, section)?;
        }
    }
    Ok(page)
}

/// What comes after the comment about the file, the guard and the includes.
fn after_guard(head: &str) -> &str {
    let end = head.rfind("#endif").map(|at| at + "#endif".len());
    let end = end.or_else(|| head.find("*/").map(|at| at + 2));
    &head[end.unwrap_or(head.len())..]
}

/// A section, from behind its mark. The first lines are its title and what is said of all.
fn section_of(name: &str, text: &str) -> Result<String, String> {
    let (head, rest) = text
        .split_once("*/")
        .ok_or(format!("{name}: a section's head does not end"))?;
    let rest = rest.split("/* }====").next().unwrap_or_default();
    let head = words_of(head);
    let (title, about) = head.split_once('\n').unwrap_or((&head, ""));
    let mut page = format!("\n### {}\n", title.trim());
    if !about.trim().is_empty() {
        write!(page, "\n{}\n", about.trim()).expect("a string takes text");
    }
    for entry in entries(rest) {
        page += &shown(&entry);
    }
    Ok(page)
}

/// The text of a comment, without its marks. Blank lines divide paragraphs. Lines that are indented
/// behind their mark become a block of code.
fn words_of(comment: &str) -> String {
    let mut text = String::new();
    for line in comment.lines() {
        let line = line.trim().trim_start_matches("/*").trim_end_matches("*/");
        let words = line.trim_start_matches("**");
        if words.trim_start().starts_with("====") {
            continue;
        }
        let is_code = line.starts_with("**   ");
        text += if is_code { "    " } else { "" };
        text += words.trim();
        text.push('\n');
    }
    text.trim_matches('\n').to_owned()
}

/// Divides declarations at comments and blank lines that are not within braces.
fn entries(text: &str) -> Vec<Declared> {
    let mut entries = vec![Declared::default()];
    let (mut depth, mut is_comment) = (0_usize, false);
    for line in text.lines() {
        let begins_comment = depth == 0 && line.starts_with("/*");
        if depth == 0 && (line.is_empty() && !is_comment || begins_comment) {
            entries.push(Declared::default());
        }
        is_comment |= begins_comment;
        let Some(entry) = entries.last_mut() else {
            continue;
        };
        if is_comment {
            entry.comment += line;
            entry.comment.push('\n');
            is_comment = !line.ends_with("*/");
            continue;
        }
        depth += line.matches('{').count();
        depth -= line.matches('}').count().min(depth);
        entry.code += line;
        entry.code.push('\n');
    }
    entries.retain(|entry| *entry != Declared::default() && !is_of_the_language(&entry.code));
    entries
}

/// Whether this is what C++ needs.
fn is_of_the_language(code: &str) -> bool {
    code.contains("__cplusplus") || code.trim() == "}" || code.trim().starts_with("extern \"C\"")
}

fn shown(entry: &Declared) -> String {
    let mut text = String::new();
    let code = entry.code.trim_matches('\n');
    if !code.is_empty() {
        write!(text, "\n```c\n{code}\n```\n").expect("a string takes text");
    }
    if !entry.comment.is_empty() {
        write!(text, "\n{}\n", words_of(&entry.comment)).expect("a string takes text");
    }
    text
}

#[cfg(test)]
mod checks {
    use super::*;

    const HEADER: &str = "/*\n** What it is for.\n**\n**   a(1);\n*/\n#ifndef A_H\n#define A_H\n\
                          #include <b.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n\
                          /* A number. */\n#define A 1\n\n\
                          /* {====\n** Section\n**\n** About it.\n** ==== */\n\n\
                          /* First\n   and more. */\nvoid a(int x,\n    int y);\nvoid b(void);\n\
                          struct c {\n  int d; /* an int */\n\n  int e;\n};\n\nvoid f(void);\n\n\
                          /* }==== */\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";

    #[test]
    fn a_header_becomes_sections_with_code_and_its_comments() {
        let page = page(&[("a.h", HEADER.to_owned())]).expect("it is a header");
        let (_, page) = page.split_once("## a.h").expect("the file's heading");
        let expected = "
What it is for.

    a(1);

```c
#define A 1
```

A number.

### Section

About it.

```c
void a(int x,
    int y);
void b(void);
struct c {
  int d; /* an int */

  int e;
};
```

First
and more.

```c
void f(void);
```
";
        assert_eq!(
            page.trim_start_matches('\n'),
            expected.trim_start_matches('\n')
        );
    }

    #[test]
    fn a_header_without_a_comment_is_refused() {
        assert!(page(&[("a.h", "int a;\n".to_owned())]).is_err());
    }
}
