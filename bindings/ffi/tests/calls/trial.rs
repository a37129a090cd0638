//! Calls functions of a library that was compiled for a test.

use std::ffi::c_void;

use baton_ffi::call::{Plan, SignatureError};
use baton_ffi::declarations::{Declarations, Symbol};
use baton_ffi::library::Library;
use baton_ffi::types::{Function, Kind, Qualified};

use crate::compiler;

/// Compiled functions and their declarations.
pub(crate) struct Trial {
    pub(crate) declared: Declarations,
    library: Library,
    _directory: tempfile::TempDir,
}

/// Compiles C and declares its functions.
pub(crate) fn trial(source: &str, declarations: &str) -> Trial {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = compiler::library(source, directory.path());
    let library =
        Library::load(&path.to_string_lossy(), false).unwrap_or_else(|error| panic!("{error}"));
    let mut declared = Declarations::default();
    declared
        .declare(declarations, &[])
        .unwrap_or_else(|error| panic!("{error}"));
    Trial {
        declared,
        library,
        _directory: directory,
    }
}

impl Trial {
    pub(crate) fn function(&self, name: &str) -> Function {
        match self.declared.symbol(name) {
            Some(Symbol::External(external)) => match self.declared.types.kind(external.of.id) {
                Kind::Function(function) => function.clone(),
                other => panic!("{name} is {other:?}"),
            },
            other => panic!("{name} is {other:?}"),
        }
    }

    pub(crate) fn plan(&mut self, name: &str, further: &[&str]) -> Plan {
        let function = self.function(name);
        let further: Vec<Qualified> = further
            .iter()
            .map(|text| self.declared.type_name(text, &[]).expect("it is C"))
            .collect();
        Plan::new(&mut self.declared.types, &function, &further)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn address(&self, name: &str) -> *const c_void {
        self.library
            .symbol(name)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Calls through libffi. Each argument is the bytes of a value.
    pub(crate) fn call(
        &mut self,
        name: &str,
        further: &[&str],
        arguments: &mut [Vec<u8>],
    ) -> Vec<u8> {
        let plan = self.plan(name, further);
        assert_eq!(plan.arguments().len(), arguments.len(), "{name}");
        for (slot, bytes) in plan.arguments().iter().zip(arguments.iter()) {
            assert_eq!(slot.size, bytes.len(), "{name}");
        }
        let mut addresses: Vec<*mut c_void> = arguments
            .iter_mut()
            .map(|bytes| bytes.as_mut_ptr().cast())
            .collect();
        let mut result = vec![0_u64; plan.result().size.div_ceil(8)];
        // SAFETY: the function was declared as it is defined, and all buffers have the slots'
        // sizes.
        unsafe {
            plan.call(
                self.address(name),
                addresses.as_mut_ptr(),
                result.as_mut_ptr().cast(),
            )
        };
        result.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// The bytes of an `int`.
pub(crate) fn int(value: i32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

/// The bytes of a `double`.
pub(crate) fn double(value: f64) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

/// Prepares a signature. The error says why it cannot be called.
pub(crate) fn passes(declared: &mut Declarations, text: &str) -> Result<Plan, SignatureError> {
    let of = declared.type_name(text, &[]).expect("it is C");
    let Kind::Function(function) = declared.types.kind(of.id).clone() else {
        panic!("{text} is no function")
    };
    Plan::new(&mut declared.types, &function, &[])
}
