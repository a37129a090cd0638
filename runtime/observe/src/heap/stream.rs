//! Reads the records of a heap. The guest that writes them describes them; for Lua, this is
//! `guests/lua/c/heap/records.h`.

/// The version of the records that are read here.
const VERSION: u64 = 1;

/// The maximal number of bytes of a record. A longer one is none of ours.
const LONGEST: usize = 64 * 1024;

/// What an object is, numbered as in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// No object: a name for a group of references.
    Group,
    /// A string; its name is the beginning of its text.
    Text,
    /// An object of the language; its name is its class.
    Table,
    /// A function of the language.
    Function,
    /// A function of C with variables.
    ForeignFunction,
    /// An object of C.
    ForeignObject,
    /// A stack.
    Thread,
    /// Compiled code.
    Code,
    /// A variable of several functions.
    Variable,
    /// A part of the interpreter.
    Internal,
}

const KINDS: [ObjectKind; 10] = [
    ObjectKind::Group,
    ObjectKind::Text,
    ObjectKind::Table,
    ObjectKind::Function,
    ObjectKind::ForeignFunction,
    ObjectKind::ForeignObject,
    ObjectKind::Thread,
    ObjectKind::Code,
    ObjectKind::Variable,
    ObjectKind::Internal,
];

/// How an object refers to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner<'a> {
    /// By a field whose name is the string with this address.
    Field(u64),
    /// By an element of a table.
    Element(i64),
    /// By a field.
    Named(&'a [u8]),
    /// By a variable.
    Variable(&'a [u8]),
    /// By a part that programs cannot name.
    Part(&'a [u8]),
    /// By a part that has no name.
    Hidden,
}

/// A record. Addresses are numbers of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// The first one.
    Begin {
        /// Bytes of the heap.
        bytes: u64,
    },
    /// An object.
    Object {
        /// Its address, a multiple of 8.
        address: u64,
        /// What it is.
        kind: ObjectKind,
        /// Its size.
        bytes: u64,
        /// Its class, or its text.
        name: &'a [u8],
    },
    /// A reference of the last object.
    Reference {
        /// How it refers.
        by: Manner<'a>,
        /// The other object.
        to: u64,
        /// It does not keep the other object alive.
        is_weak: bool,
    },
    /// A reference of any object.
    ReferenceOf {
        /// The object.
        from: u64,
        /// How it refers.
        name: &'a [u8],
        /// The other object.
        to: u64,
    },
    /// A better name for an object, which may come later.
    Rename {
        /// The object.
        address: u64,
        /// Its name.
        name: &'a [u8],
    },
    /// The last one.
    End {
        /// How many objects the guest's collector had found dead, and had not freed.
        dead: u64,
        /// Their bytes.
        dead_bytes: u64,
    },
}

/// Reads records that come in pieces.
#[derive(Debug, Default)]
pub struct Reader {
    /// The bytes of a record that is not complete.
    rest: Vec<u8>,
    /// The last address.
    last: u64,
    has_ended: bool,
}

/// Why there is no record.
enum No {
    /// More bytes are needed.
    Incomplete,
    Wrong(String),
}

impl Reader {
    /// Reads the records in these bytes, and passes them to `take`.
    ///
    /// # Errors
    /// A sentence: the bytes are no records.
    pub fn read(
        &mut self,
        bytes: &[u8],
        take: &mut dyn FnMut(Record<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let mut done = 0;
        while done < all.len() {
            if self.has_ended {
                return Err("wrong records: something follows the end".to_owned());
            }
            let mut cursor = Cursor {
                bytes: &all[done..],
                last: self.last,
            };
            match cursor.record() {
                Ok(record) => {
                    self.has_ended = matches!(record, Record::End { .. });
                    take(record)?;
                    self.last = cursor.last;
                    done = all.len() - cursor.bytes.len();
                }
                Err(No::Incomplete) if all.len() - done <= LONGEST => break,
                Err(No::Incomplete) => return Err("wrong records: one is too long".to_owned()),
                Err(No::Wrong(why)) => return Err(format!("wrong records: {why}")),
            }
        }
        all.drain(..done);
        self.rest = all;
        Ok(())
    }

    /// Whether all records were read.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    last: u64,
}

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Result<u8, No> {
        let (&first, rest) = self.bytes.split_first().ok_or(No::Incomplete)?;
        self.bytes = rest;
        Ok(first)
    }

    fn number(&mut self) -> Result<u64, No> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(No::Wrong("a number has more than 64 bits".to_owned()))
    }

    fn signed(&mut self) -> Result<i64, No> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn address(&mut self) -> Result<u64, No> {
        let difference = self.signed()?.wrapping_mul(8);
        self.last = self.last.wrapping_add_signed(difference);
        Ok(self.last)
    }

    fn text(&mut self) -> Result<&'a [u8], No> {
        let length = usize::try_from(self.number()?)
            .ok()
            .filter(|&length| length <= LONGEST)
            .ok_or_else(|| No::Wrong("a text is too long".to_owned()))?;
        let (text, rest) = self.bytes.split_at_checked(length).ok_or(No::Incomplete)?;
        self.bytes = rest;
        Ok(text)
    }

    fn record(&mut self) -> Result<Record<'a>, No> {
        let letter = self.byte()?;
        let is_weak = matches!(letter, b'P' | b'E' | b'I');
        let by = match letter {
            b'B' => return self.begin(),
            b'O' => return self.object(),
            b'T' => {
                return Ok(Record::Rename {
                    address: self.address()?,
                    name: self.text()?,
                });
            }
            b'X' => {
                return Ok(Record::ReferenceOf {
                    from: self.address()?,
                    name: self.text()?,
                    to: self.address()?,
                });
            }
            b'Z' => {
                return Ok(Record::End {
                    dead: self.number()?,
                    dead_bytes: self.number()?,
                });
            }
            b'p' | b'P' => Manner::Field(self.address()?),
            b'e' | b'E' => Manner::Element(self.signed()?),
            b'i' | b'I' => Manner::Part(self.text()?),
            b'n' => Manner::Named(self.text()?),
            b'c' => Manner::Variable(self.text()?),
            b'h' => Manner::Hidden,
            other => {
                return Err(No::Wrong(format!(
                    "'{}' begins no record",
                    other.escape_ascii()
                )));
            }
        };
        let to = self.address()?;
        Ok(Record::Reference { by, to, is_weak })
    }

    fn begin(&mut self) -> Result<Record<'a>, No> {
        let version = self.number()?;
        if version != VERSION {
            return Err(No::Wrong(format!(
                "version {VERSION} expected, got {version}"
            )));
        }
        let bytes = self.number()?;
        Ok(Record::Begin { bytes })
    }

    fn object(&mut self) -> Result<Record<'a>, No> {
        let address = self.address()?;
        let number = self.number()?;
        let kind = usize::try_from(number).ok().and_then(|at| KINDS.get(at));
        let &kind = kind.ok_or_else(|| No::Wrong(format!("{number} is no kind of objects")))?;
        Ok(Record::Object {
            address,
            kind,
            bytes: self.number()?,
            name: self.text()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table at 0x1000 with a string, a global and a weak reference; as the target writes it.
    const SOME: &[u8] = b"B\x01\x80\x08\
        O\x80\x08\x02\x38\x05table\
        p\x08\x07\
        e\x01\x00\
        I\x03key\x02\
        X\x00\x01v\x02\
        T\x01\x01t\
        Z\x03\x81\x01";

    fn expected() -> Vec<String> {
        let all = [
            Record::Begin { bytes: 1024 },
            Record::Object {
                address: 0x1000,
                kind: ObjectKind::Table,
                bytes: 56,
                name: b"table",
            },
            Record::Reference {
                by: Manner::Field(0x1020),
                to: 0x1000,
                is_weak: false,
            },
            Record::Reference {
                by: Manner::Element(-1),
                to: 0x1000,
                is_weak: false,
            },
            Record::Reference {
                by: Manner::Part(b"key"),
                to: 0x1008,
                is_weak: true,
            },
            Record::ReferenceOf {
                from: 0x1008,
                name: b"v",
                to: 0x1010,
            },
            Record::Rename {
                address: 0x1008,
                name: b"t",
            },
            Record::End {
                dead: 3,
                dead_bytes: 129,
            },
        ];
        all.iter().map(|record| format!("{record:?}")).collect()
    }

    fn read_in_pieces(bytes: &[u8], size: usize) -> Result<(Vec<String>, bool), String> {
        let mut reader = Reader::default();
        let mut records = Vec::new();
        for piece in bytes.chunks(size) {
            reader.read(piece, &mut |record| {
                records.push(format!("{record:?}"));
                Ok(())
            })?;
        }
        Ok((records, reader.has_ended()))
    }

    #[test]
    fn records_are_read_from_pieces_of_any_size() {
        for size in 1..=SOME.len() {
            assert_eq!(read_in_pieces(SOME, size), Ok((expected(), true)), "{size}");
        }
    }

    #[test]
    fn what_ends_early_has_no_end() {
        for length in 0..SOME.len() {
            let (_, has_ended) = read_in_pieces(&SOME[..length], 7).expect("it may go on");
            assert!(!has_ended, "{length}");
        }
    }

    #[test]
    fn what_are_no_records_is_refused() {
        let why = |bytes: &[u8]| read_in_pieces(bytes, 1000).expect_err("no records");
        assert_eq!(why(b"?"), "wrong records: '?' begins no record");
        assert_eq!(
            why(b"B\x02\x00"),
            "wrong records: version 1 expected, got 2"
        );
        assert_eq!(
            why(b"O\x00\x50\x00\x00"),
            "wrong records: 80 is no kind of objects"
        );
        assert_eq!(
            why(b"Z\x00\x00Z"),
            "wrong records: something follows the end"
        );
        assert_eq!(
            why(b"T\x00\xff\xff\x7f"),
            "wrong records: a text is too long"
        );
        let digits = [b'Z'; 1].into_iter().chain([0xff; 11]).collect::<Vec<u8>>();
        assert_eq!(
            why(&digits),
            "wrong records: a number has more than 64 bits"
        );
    }
}
