//! Tells Valgrind of stacks. Without that, it takes a switch of stacks for a large frame, and then
//! reports every access to the stack that was left.

use super::Stack;

/// Registers a stack's memory with Valgrind, if the program runs in it. Otherwise it is a few
/// instructions without an effect. Valgrind forgets no stack: one that was unmapped stays listed,
/// which harms nobody, as no stack pointer goes there before a new stack is registered.
#[inline]
pub(super) fn register(stack: &Stack) {
    arch::request(&[
        arch::STACK_REGISTER,
        stack.bottom() as usize,
        stack.extent_end(),
        0,
        0,
        0,
    ]);
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod arch {
    use std::arch::asm;

    /// `VG_USERREQ__STACK_REGISTER` of Valgrind's public header `valgrind.h`: the lowest address,
    /// and the end.
    pub(super) const STACK_REGISTER: usize = 0x1501;

    /// A client request: the sequence that `valgrind.h` defines for this processor. The four
    /// rotations are 128 bits together, and the exchange is one of a register with itself.
    #[inline(always)]
    pub(super) fn request(words: &[usize; 6]) {
        // SAFETY: outside of Valgrind, the sequence changes flags only. In Valgrind, it reads the
        // six words, and changes the register of the result.
        unsafe {
            asm!(
                "rol rdi, 3",
                "rol rdi, 13",
                "rol rdi, 61",
                "rol rdi, 51",
                "xchg rbx, rbx",
                in("rax") words.as_ptr(),
                inout("rdx") 0_usize => _,
                options(nostack),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod arch {
    /// Has no meaning here.
    pub(super) const STACK_REGISTER: usize = 0;

    /// Valgrind's sequence for this processor is not known here.
    #[inline(always)]
    pub(super) fn request(_words: &[usize; 6]) {}
}

#[cfg(test)]
mod checks {
    use crate::stack::StackPool;

    /// With Valgrind, the tests of guests in C notice a wrong sequence.
    #[test]
    fn stacks_are_made_as_before_without_valgrind() {
        let mut pool = StackPool::new(64 * 1024).expect("the size is legal");
        let stack = pool.allocate(None).expect("there is room");
        super::register(&stack);
        assert_eq!(stack.bottom() as usize, stack.guard().end);
        pool.recycle(stack);
    }
}
