//! Numbers as text, and as data.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Number;

/// As both formats of text have it.
impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Natural(number) => write!(out, "{number}"),
            Self::Whole(number) => write!(out, "{number}"),
            Self::Real(number) if number.is_nan() => out.write_str("NaN"),
            Self::Real(f64::INFINITY) => out.write_str("+Inf"),
            Self::Real(f64::NEG_INFINITY) => out.write_str("-Inf"),
            // With a point or an exponent.
            Self::Real(number) => write!(out, "{number:?}"),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Natural(number) => serializer.serialize_u64(number),
            Self::Whole(number) => serializer.serialize_i64(number),
            Self::Real(number) if number.is_finite() => serializer.serialize_f64(number),
            Self::Real(_) => serializer.collect_str(self), // JSON has no such number
        }
    }
}

/// A number as it is sent.
#[derive(Deserialize)]
#[serde(untagged)]
enum Sent {
    Natural(u64),
    Whole(i64),
    Real(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Sent::deserialize(deserializer)? {
            Sent::Natural(number) => Self::Natural(number),
            Sent::Whole(number) => Self::Whole(number),
            Sent::Real(number) => Self::Real(number),
            Sent::Text(text) => Self::Real(text.parse().map_err(serde::de::Error::custom)?),
        })
    }
}

/// A real number in other data.
pub(super) mod real {
    use super::{Deserialize, Deserializer, Number, Serialize, Serializer};

    pub(in crate::metrics) fn serialize<S: Serializer>(
        number: &f64,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Number::Real(*number).serialize(serializer)
    }

    pub(in crate::metrics) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<f64, D::Error> {
        Ok(match Number::deserialize(deserializer)? {
            Number::Natural(number) => number as f64,
            Number::Whole(number) => number as f64,
            Number::Real(number) => number,
        })
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn a_number_comes_back_from_its_data() {
        let numbers = [
            (Number::Natural(u64::MAX), "18446744073709551615"),
            (Number::Whole(-3), "-3"),
            (Number::Real(1.0), "1.0"),
            (Number::Real(f64::INFINITY), "\"+Inf\""),
            (Number::Real(f64::NEG_INFINITY), "\"-Inf\""),
        ];
        for (number, data) in numbers {
            assert_eq!(serde_json::to_string(&number).expect("data"), data);
            assert_eq!(
                serde_json::from_str::<Number>(data).expect("a number"),
                number
            );
            assert_eq!(number.to_string(), data.trim_matches('"'));
        }
        let none = serde_json::to_string(&Number::Real(f64::NAN)).expect("data");
        let read: Number = serde_json::from_str(&none).expect("a number");
        assert_eq!(read.to_string(), "NaN");
    }
}
