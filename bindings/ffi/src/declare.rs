//! Adds declarations: first those that every program has, then what the program declares.

use std::collections::{HashMap, HashSet};

use crate::declarations::{Argument, Declarations, Prototype};
use crate::error::DeclarationError;
use crate::parse;
use crate::types::{Qualified, Types};

/// The names that every program knows without declaring them. They have the meaning that
/// <stddef.h>, <stdint.h>, <stdio.h> and other headers give them on this platform. A program may
/// declare them differently.
const PRELUDE: &str = "
typedef signed char int8_t; typedef unsigned char uint8_t;
typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t;
typedef long int64_t; typedef unsigned long uint64_t;
typedef long intptr_t; typedef unsigned long uintptr_t;
typedef long intmax_t; typedef unsigned long uintmax_t;
typedef signed char int_least8_t; typedef unsigned char uint_least8_t;
typedef short int_least16_t; typedef unsigned short uint_least16_t;
typedef int int_least32_t; typedef unsigned int uint_least32_t;
typedef long int_least64_t; typedef unsigned long uint_least64_t;
typedef long ptrdiff_t; typedef unsigned long size_t; typedef long ssize_t; typedef long off_t; \
typedef long time_t;
typedef unsigned short char16_t; typedef unsigned int char32_t;
typedef __int128 __int128_t; typedef unsigned __int128 __uint128_t;
typedef struct _IO_FILE FILE;
";

#[cfg(target_arch = "x86_64")]
const PLATFORM: &str = "typedef int wchar_t; typedef unsigned int wint_t;
typedef struct { unsigned int gp_offset, fp_offset; void *overflow_arg_area, *reg_save_area; } \
__builtin_va_list[1];
typedef __builtin_va_list va_list; typedef __builtin_va_list __gnuc_va_list;";

#[cfg(all(target_arch = "aarch64", not(target_vendor = "apple")))]
const PLATFORM: &str = "typedef unsigned int wchar_t; typedef unsigned int wint_t;
typedef struct { void *stack, *gr_top, *vr_top; int gr_offs, vr_offs; } __builtin_va_list;
typedef __builtin_va_list va_list; typedef __builtin_va_list __gnuc_va_list;";

#[cfg(not(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", not(target_vendor = "apple"))
)))]
const PLATFORM: &str = "typedef int wchar_t; typedef int wint_t;
typedef char *__builtin_va_list; typedef __builtin_va_list va_list; typedef __builtin_va_list \
__gnuc_va_list;";

impl Default for Declarations {
    fn default() -> Self {
        let mut declarations = Self {
            types: Types::default(),
            symbols: HashMap::new(),
            predeclared: HashSet::new(),
            tags: HashMap::new(),
        };
        for text in [PRELUDE, PLATFORM] {
            declarations
                .declare(text, &[])
                .expect("the prelude is right");
        }
        declarations.predeclared = declarations.symbols.keys().cloned().collect();
        declarations
    }
}

impl Declarations {
    /// Adds the declarations of a text. Each `$` in it takes the next argument. If there is an
    /// error, the declarations before it remain.
    pub fn declare(&mut self, text: &str, arguments: &[Argument]) -> Result<(), DeclarationError> {
        parse::declarations(self, text, arguments)
    }

    /// The type that a text names, such as `struct point *[3]`.
    pub fn type_name(
        &mut self,
        text: &str,
        arguments: &[Argument],
    ) -> Result<Qualified, DeclarationError> {
        parse::type_name(self, text, arguments)
    }

    /// The one function or variable that a text declares. The name is not added to the
    /// declarations.
    pub fn prototype(&mut self, text: &str) -> Result<Prototype, DeclarationError> {
        parse::prototype(self, text)
    }
}
