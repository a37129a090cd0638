//! Computes where the members of a structure or union lie.
//!
//! The rules are those of the System V ABI, as GCC and Clang implement it. Source: GCC's
//! `stor-layout.cc` (`layout_decl`, `place_field`, `update_alignment_for_field`), and the System V
//! psABIs for x86-64 and AArch64. The test `tests/layout.rs` compares the results with the
//! installed C compiler.

use super::MAX_SIZE;

/// One member, as the layout sees it. Sizes and alignments are in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Size of the member's type; 0 for an array without a length at the end.
    pub size: u64,
    /// Alignment of the member's type. A typedef may have raised it.
    pub align: u32,
    /// `aligned` or `_Alignas` on the member itself.
    pub aligned: Option<u32>,
    /// `packed` on the member itself.
    pub packed: bool,
    /// The width of a bit-field.
    pub width: Option<u32>,
    /// Whether the member has a name. A bit-field without a name is padding.
    pub named: bool,
}

/// The attributes of the whole structure or union.
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

/// The computed layout. Sizes and alignments are in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Size of the whole, padding included.
    pub size: u64,
    /// Alignment of the whole.
    pub align: u32,
    /// The largest alignment that a member needs. Attributes of the whole do not raise it.
    pub align_of_members: u32,
    /// The first bit of each member, counted from the beginning of the structure.
    pub bits: Vec<u64>,
}

/// Whether bit-fields without a name raise the alignment of the whole structure. They do on AArch64
/// (AAPCS64), but not on x86-64.
const UNNAMED_BIT_FIELDS_ALIGN: bool =
    cfg!(all(target_arch = "aarch64", not(target_vendor = "apple")));

/// Lays out members. Returns `None` if the whole would be larger than [`MAX_SIZE`].
pub fn lay_out(members: &[Member], rules: Rules) -> Option<Placed> {
    let mut align_of_members = 1;
    let mut end = 0_u64; // in bits: where the next member may begin
    let mut size = 0_u64; // in bits
    let mut bits = Vec::with_capacity(members.len());
    for member in members {
        align_of_members = align_of_members.max(demanded(member, &rules));
        let from = if rules.is_union { 0 } else { end };
        let start = first_bit(member, &rules, from)?;
        let length = member.width.map_or(member.size.checked_mul(8)?, u64::from);
        end = start.checked_add(length)?;
        size = size.max(end);
        bits.push(start);
    }
    let align = align_of_members.max(rules.aligned.unwrap_or(1));
    let bytes = size
        .div_ceil(8)
        .checked_next_multiple_of(u64::from(align))?;
    (bytes <= MAX_SIZE).then_some(Placed {
        size: bytes,
        align,
        align_of_members,
        bits,
    })
}

fn is_packed(member: &Member, rules: &Rules) -> bool {
    member.packed || rules.packed
}

fn limited(align: u32, rules: &Rules) -> u32 {
    rules.pack.map_or(align, |pack| align.min(pack))
}

/// The alignment, in bytes, that the whole structure needs because of this member.
fn demanded(member: &Member, rules: &Rules) -> u32 {
    let own = limited(member.aligned.unwrap_or(1), rules);
    match member.width {
        None => own_alignment(member, rules),
        Some(_) if !member.named && !UNNAMED_BIT_FIELDS_ALIGN => 1,
        // Packing does not apply to a bit-field of width zero.
        Some(0) => own.max(limited(member.align, rules)),
        Some(_) if rules.pack.is_some() => own.max(limited(member.align, rules)),
        Some(_) if is_packed(member, rules) => own,
        Some(_) => own.max(member.align),
    }
}

/// The alignment, in bytes, of a member that is not a bit-field.
fn own_alignment(member: &Member, rules: &Rules) -> u32 {
    let natural = match (is_packed(member, rules), member.aligned) {
        (true, Some(aligned)) => aligned,
        (true, None) => 1,
        (false, aligned) => member.align.max(aligned.unwrap_or(1)),
    };
    limited(natural, rules)
}

/// The first bit of a member that may not begin before bit `from`.
fn first_bit(member: &Member, rules: &Rules, from: u64) -> Option<u64> {
    let unit = u64::from(member.align) * 8;
    match member.width {
        None => from.checked_next_multiple_of(u64::from(own_alignment(member, rules)) * 8),
        // A bit-field of width zero ends the current unit.
        Some(0) => from.checked_next_multiple_of(u64::from(limited(member.align, rules)) * 8),
        Some(width) => {
            let start = match member.aligned {
                Some(aligned) => {
                    from.checked_next_multiple_of(u64::from(limited(aligned, rules)) * 8)?
                }
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

/// Whether a bit-field would touch more aligned units than its type occupies.
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
        let placed =
            lay_out(&[int(Some(30)), int(Some(3)), int(None)], rules).expect("it is small");
        assert_eq!(
            (placed.bits, placed.size, placed.align),
            (vec![0, 30, 40], 9, 1)
        );
    }

    #[test]
    fn an_attribute_of_the_whole_does_not_raise_the_alignment_of_the_members() {
        let rules = Rules {
            aligned: Some(16),
            ..Rules::default()
        };
        let placed = lay_out(&[int(None)], rules).expect("it is small");
        assert_eq!((placed.align, placed.align_of_members), (16, 4));
        let member = Member {
            aligned: Some(16),
            ..int(None)
        };
        let placed = lay_out(&[member], Rules::default()).expect("it is small");
        assert_eq!((placed.align, placed.align_of_members), (16, 16));
    }

    #[test]
    fn a_type_that_is_too_large_has_no_layout() {
        let large = Member {
            size: MAX_SIZE,
            ..int(None)
        };
        assert_eq!(lay_out(&[large, int(None)], Rules::default()), None);
    }
}
