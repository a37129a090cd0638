//! Makes an input that fails shorter.

/// Leaves parts of the input out, larger ones first, as long as it fails.
pub(super) fn shortest(mut input: Vec<u8>, fails: &dyn Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut size = input.len();
    while size > 0 {
        let mut at = 0;
        while at < input.len() {
            let end = (at + size).min(input.len());
            let without = [&input[..at], &input[end..]].concat();
            match fails(&without) {
                true => input = without,
                false => at = end,
            }
        }
        size /= 2;
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let fails = |input: &[u8]| {
            let x = input.iter().position(|&byte| byte == b'x');
            let y = input.iter().rposition(|&byte| byte == b'y');
            x.zip(y).is_some_and(|(x, y)| x < y)
        };
        assert_eq!(shortest(b"aaxbbbycc".to_vec(), &fails), b"xy");
        assert_eq!(shortest(b"xy".to_vec(), &fails), b"xy");
    }
}
