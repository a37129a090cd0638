//! Writes the book's reference pages from the definitions that editors read.

use super::definitions::{Class, Definitions, Function, Named};

/// The page about one module: its functions first, then its objects and options.
pub(super) fn page(module: &str, definitions: &Definitions) -> String {
    let shown = |text: &str| text.replace(&format!("{module}."), "");
    let mut page = format!(
        "<!-- Made from the definitions in editor/ by: cargo xtask generate -->\n# \
         {module}\n\n{}\n",
        definitions.remarks
    );
    for class in &definitions.classes {
        page += &section(class, class.name == module, &shown);
    }
    if !definitions.aliases.is_empty() {
        page += "\n## Names of several types\n\n| name | stands for | meaning |\n|---|---|---|\n";
        let rows = definitions.aliases.iter().map(|alias| row(alias, &shown));
        page += &rows.collect::<String>();
    }
    page
}

fn section(class: &Class, is_module: bool, shown: &dyn Fn(&str) -> String) -> String {
    let mut text = match is_module {
        true => String::new(),
        false => format!("\n## {}\n", shown(&class.name)),
    };
    if !class.meaning.is_empty() {
        text += &format!("\n{}\n", class.meaning);
    }
    if !class.fields.is_empty() {
        text += "\n| field | type | meaning |\n|---|---|---|\n";
        text += &class
            .fields
            .iter()
            .map(|field| row(field, shown))
            .collect::<String>();
    }
    if is_module {
        text += "\n## Functions\n";
    }
    text + &class
        .functions
        .iter()
        .map(|function| entry(function, shown))
        .collect::<String>()
}

fn row(named: &Named, shown: &dyn Fn(&str) -> String) -> String {
    let kind = shown(&named.kind).replace('|', "\\|");
    let name = shown(&named.name);
    format!(
        "| `{name}` | `{kind}` | {} |\n",
        named.meaning.replace('|', "\\|")
    )
}

fn entry(function: &Function, shown: &dyn Fn(&str) -> String) -> String {
    let forms: Vec<String> = function
        .forms
        .iter()
        .map(|form| format!("`{form}`"))
        .collect();
    let mut text = format!("\n### {}\n", forms[0]);
    if forms.len() > 1 {
        text += &format!("\nAlso {}.\n", forms[1..].join(", "));
    }
    if !function.meaning.is_empty() {
        text += &format!("\n{}\n", function.meaning);
    }
    let mut items = String::new();
    for parameter in function
        .parameters
        .iter()
        .filter(|parameter| parameter.name != "...")
    {
        let name = parameter.name.trim_end_matches('?');
        let optional = if parameter.name.ends_with('?') {
            ", optional"
        } else {
            ""
        };
        items += &format!(
            "- `{name}`: `{}`{optional}{}\n",
            shown(&parameter.kind),
            remark(parameter)
        );
    }
    for result in &function.results {
        let name = match result.name.is_empty() {
            true => String::new(),
            false => format!(" {}", result.name),
        };
        items += &format!(
            "- returns `{}`{name}{}\n",
            shown(&result.kind),
            remark(result)
        );
    }
    if !items.is_empty() {
        text += &format!("\n{items}");
    }
    text
}

fn remark(named: &Named) -> String {
    match named.meaning.is_empty() {
        true => String::new(),
        false => format!(": {}", named.meaning),
    }
}
