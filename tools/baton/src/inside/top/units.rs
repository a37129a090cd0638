//! Numbers as texts of a few columns.

/// A time in seconds, in at most 7 columns for less than a hundred years.
pub(super) fn duration(seconds: f64) -> String {
    let whole = seconds as u64; // a negative one becomes 0
    let (minutes, hours, days) = (whole / 60, whole / 3600, whole / 86400);
    match whole {
        0..60 if seconds < 59.995 => format!("{:.2}s", seconds.max(0.0)),
        0..3600 => format!("{minutes}m{:02}s", whole % 60),
        3600..86400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

/// A number in at most 6 columns, such as `1.25 M`.
pub(super) fn count(number: f64) -> String {
    scaled(number, 1000.0, &["", " k", " M", " G", " T"])
}

/// A size such as `12.3 MiB`.
pub(super) fn bytes(size: u64) -> String {
    scaled(size as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"])
}

fn scaled(mut number: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // From here on it would be rounded up to the step.
    while number >= step - 0.5 && unit + 1 < units.len() {
        number /= step;
        unit += 1;
    }
    let decimals = match number {
        _ if unit == 0 => 0,
        0.0..9.995 => 2,
        9.995..99.95 => 1,
        _ => 0,
    };
    format!("{number:.decimals$}{}", units.get(unit).unwrap_or(&""))
}

/// A share in percent, in at most 6 columns.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// A text without characters that a terminal would act on.
pub(super) fn clean(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// The length of a text in characters.
pub(super) fn length(text: &str) -> usize {
    text.chars().count()
}

/// A text in at most `width` characters, which end with a sign if some are left out.
pub(super) fn shortened(text: &str, width: usize) -> String {
    match (length(text) <= width, width) {
        (true, _) => text.to_owned(),
        (false, 0) => String::new(),
        (false, _) => text.chars().take(width - 1).chain(['\u{2026}']).collect(),
    }
}

/// What a process waits for, in fewer words: `mutex 'm' held by 1 'main'`. The second part is the
/// holder, if there is one.
fn in_short(wait: &str) -> (&str, String) {
    let wait = wait.strip_prefix("for the ").unwrap_or(wait);
    match wait.split_once(", held by process ") {
        Some((object, holder)) => (object, format!(" held by {holder}")),
        None => (wait, String::new()),
    }
}

/// The width of what a process waits for, in few words.
pub(super) fn short_length(wait: &str) -> usize {
    let (object, holder) = in_short(wait);
    length(object) + length(&holder)
}

/// What a process waits for, in at most `width` characters. The holder is cut last.
pub(super) fn fitting_wait(wait: &str, width: usize) -> String {
    if length(wait) <= width {
        return wait.to_owned();
    }
    let (object, holder) = in_short(wait);
    let room = width.saturating_sub(length(&holder)).max(width.min(4));
    shortened(&(shortened(object, room) + &holder), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let times = [0.0, 1.234, 59.99, 59.996, 61.0, 3599.9, 7384.0, 266_400.0];
        let texts = times.map(duration);
        let expected = [
            "0.00s", "1.23s", "59.99s", "0m59s", "1m01s", "59m59s", "2h03m", "3d02h",
        ];
        assert_eq!(texts, expected);
        assert_eq!(duration(-1.0), "0.00s");
        assert!(duration(3e9).len() <= 9);
    }

    #[test]
    fn numbers_have_three_digits() {
        let texts = [0.0, 7.4, 999.0, 999.7, 1234.0, 56_789.0, 999_600.0, 1.25e9].map(count);
        let expected = [
            "0", "7", "999", "1.00 k", "1.23 k", "56.8 k", "1.00 M", "1.25 G",
        ];
        assert_eq!(texts, expected);
        assert!(!count(f64::INFINITY).is_empty());
    }

    #[test]
    fn sizes_have_their_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(12_900_000), "12.3 MiB");
        assert!(bytes(u64::MAX).ends_with(" TiB"));
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(clean("a\x1b[2Jb\n"), "a?[2Jb?");
    }

    #[test]
    fn a_wait_gets_shorter_and_keeps_its_holder() {
        let wait = "for the mutex 'accounts', held by process 12 'main'";
        assert_eq!(fitting_wait(wait, 60), wait);
        let short = "mutex 'accounts' held by 12 'main'";
        assert_eq!(short_length(wait), short.len());
        assert_eq!(fitting_wait(wait, short.len()), short);
        assert_eq!(fitting_wait(wait, 30), "mutex 'acco… held by 12 'main'");
        assert_eq!(fitting_wait(wait, 12), "mut… held b…");
        assert_eq!(fitting_wait(wait, 0), "");
        assert_eq!(fitting_wait("until a time", 12), "until a time");
        assert_eq!(fitting_wait("until a time", 8), "until a…");
    }
}
