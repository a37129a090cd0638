//! Where the members of a structure or union lie, by the System V ABI as GCC and Clang carry it out.
//!
//! Source: GCC's `stor-layout.cc` (`layout_decl`, `place_field`, `update_alignment_for_field`), and the System V psABIs for x86-64 and
//! AArch64. The conformance test (`tests/layout.rs`) compares with the C compiler at hand.

use super::MAX_SIZE;

/// What the layout must know of one member. Sizes and alignments are bytes.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Size of its type; 0 for an array without length at the end.
    pub size: u64,
    /// Alignment of its type, a typedef's own alignment included.
    pub align: u32,
    /// `aligned` or `_Alignas` on the member itself.
    pub aligned: Option<u32>,
    /// `packed` on the member itself.
    pub packed: bool,
    /// The width of a bit-field.
    pub width: Option<u32>,
    /// Whether it has a name; a bit-field without one is padding.
    pub named: bool,
}

/// What holds for the whole structure or union.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// All members start at offset 0.
    pub is_union: bool,
    /// `packed` on the type.
    pub packed: bool,
    /// `aligned` on the type.
    pub aligned: Option<u32>,
    /// `#pragma pack(n)`.
    pub pack: Option<u32>,
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Size of the whole, padding included.
    pub size: u64,
    /// Alignment of the whole.
    pub align: u32,
    /// The first bit of each member, counted from the beginning.
    pub bits: Vec<u64>,
}

/// Bit-fields without a name count for the alignment of the whole on AArch64 (AAPCS64), not on x86-64.
const UNNAMED_BIT_FIELDS_ALIGN: bool = cfg!(all(target_arch = "aarch64", not(target_vendor = "apple")));

/// Lays members out. None if the whole would be larger than [`MAX_SIZE`].
pub fn lay_out(members: &[Member], rules: Rules) -> Option<Placed> {
    let mut align = 1;
    let mut end = 0_u64; // in bits: where the next member may begin
    let mut size = 0_u64; // in bits
    let mut bits = Vec::with_capacity(members.len());
    for member in members {
        align = align.max(demanded(member, &rules));
        let from = if rules.is_union { 0 } else { end };
        let start = first_bit(member, &rules, from)?;
        let length = member.width.map_or(member.size.checked_mul(8)?, u64::from);
        end = start.checked_add(length)?;
        size = size.max(end);
        bits.push(start);
    }
    align = align.max(rules.aligned.unwrap_or(1));
    let bytes = size.div_ceil(8).checked_next_multiple_of(u64::from(align))?;
    (bytes <= MAX_SIZE).then_some(Placed {
        size: bytes,
        align,
        bits,
    })
}

fn is_packed(member: &Member, rules: &Rules) -> bool {
    member.packed || rules.packed
}

fn limited(align: u32, rules: &Rules) -> u32 {
    rules.pack.map_or(align, |pack| align.min(pack))
}

/// The alignment that a member asks of the whole.
fn demanded(member: &Member, rules: &Rules) -> u32 {
    let own = limited(member.aligned.unwrap_or(1), rules);
    match member.width {
        None => own_alignment(member, rules),
        Some(_) if !member.named && !UNNAMED_BIT_FIELDS_ALIGN => 1,
        // A width of zero is not subject to packing.
        Some(0) => own.max(limited(member.align, rules)),
        Some(_) if rules.pack.is_some() => own.max(limited(member.align, rules)),
        Some(_) if is_packed(member, rules) => own,
        Some(_) => own.max(member.align),
    }
}

/// The alignment of a member that is no bit-field.
fn own_alignment(member: &Member, rules: &Rules) -> u32 {
    let natural = match (is_packed(member, rules), member.aligned) {
        (true, Some(aligned)) => aligned,
        (true, None) => 1,
        (false, aligned) => member.align.max(aligned.unwrap_or(1)),
    };
    limited(natural, rules)
}

/// The first bit of a member that may begin at bit `from` or later.
fn first_bit(member: &Member, rules: &Rules, from: u64) -> Option<u64> {
    let unit = u64::from(member.align) * 8;
    match member.width {
        None => from.checked_next_multiple_of(u64::from(own_alignment(member, rules)) * 8),
        // It ends the unit that was begun.
        Some(0) => from.checked_next_multiple_of(u64::from(limited(member.align, rules)) * 8),
        Some(width) => {
            let start = match member.aligned {
                Some(aligned) => from.checked_next_multiple_of(u64::from(limited(aligned, rules)) * 8)?,
                None => from,
            };
            let loose = is_packed(member, rules) || rules.pack.is_some();
            if !loose && straddles(start, width, unit, member.size) {
                return start.checked_next_multiple_of(unit);
            }
            Some(start)
        }
    }
}

/// Whether a bit-field would span more units of its type's alignment than the type itself does.
fn straddles(start: u64, width: u32, unit: u64, size: u64) -> bool {
    (start % unit + u64::from(width)).div_ceil(unit) > (size * 8 / unit).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(width: Option<u32>) -> Member {
        Member {
            size: 4,
            align: 4,
            aligned: None,
            packed: false,
            width,
            named: true,
        }
    }

    #[test]
    fn a_bit_field_that_does_not_fit_its_unit_begins_the_next() {
        let placed = lay_out(
            &[int(Some(30)), int(Some(3)), int(Some(0)), int(Some(1))],
            Rules::default(),
        );
        assert_eq!(placed.expect("it is small").bits, [0, 32, 64, 64]);
    }

    #[test]
    fn packed_bit_fields_follow_one_another() {
        let rules = Rules {
            packed: true,
            ..Rules::default()
        };
        let placed = lay_out(&[int(Some(30)), int(Some(3)), int(None)], rules).expect("it is small");
        assert_eq!((placed.bits, placed.size, placed.align), (vec![0, 30, 40], 9, 1));
    }

    #[test]
    fn what_is_too_large_has_no_layout() {
        let large = Member {
            size: MAX_SIZE,
            ..int(None)
        };
        assert_eq!(lay_out(&[large, int(None)], Rules::default()), None);
    }
}
