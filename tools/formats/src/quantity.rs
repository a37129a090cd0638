//! Values with their unit, for people.

/// Units of time: how many nanoseconds they are, and their sign.
const TIMES: [(f64, &str); 4] = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];

/// Units of memory: how many bytes they are, and their sign.
const SIZES: [(f64, &str); 4] = [
    (1.0, "B"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
];

/// A time with three digits or more: `1.23 ms`.
pub(crate) fn time(nanoseconds: u64) -> String {
    scaled(nanoseconds, &TIMES)
}

/// A size with three digits or more: `512 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    scaled(bytes, &SIZES)
}

/// A value in the largest unit of which it is at least one.
fn scaled(value: u64, scales: &[(f64, &str)]) -> String {
    let value = value as f64;
    // The value is rounded before the unit is chosen, so that 999,999 ns are 1.00 ms.
    let fits = |scale: &&(f64, &str)| value / scale.0 >= 0.9995;
    let &(scale, sign) = scales.iter().rev().find(fits).unwrap_or(&scales[0]);
    let scaled = value / scale;
    let digits = match scaled {
        _ if scale == 1.0 => 0,
        small if small < 9.995 => 2,
        middling if middling < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.digits$} {sign}")
}

/// A part of a whole in percent, with one digit after the point.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let share = match whole {
        0 => 0.0,
        _ => part as f64 / whole as f64 * 100.0,
    };
    format!("{share:.1} %")
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn a_value_is_shown_with_three_digits() {
        for (value, shown) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1000, "1.00 µs"),
            (999_999, "1.00 ms"),
            (12_345_678, "12.3 ms"),
            (123_456_789, "123 ms"),
            (1_500_000_000, "1.50 s"),
            (1_234_500_000_000, "1234 s"),
        ] {
            assert_eq!(time(value), shown);
        }
        assert_eq!(size(512 * 1024), "512 KiB");
        assert_eq!(size(1_572_864), "1.50 MiB");
    }

    #[test]
    fn a_share_of_nothing_is_nothing() {
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(0, 0), "0.0 %");
    }
}
