//! Objects that several VMs share. C holds each by a pointer, which counts as a reference.

use super::cycles::{self, CVisitor, Container, Held, Reference, Stored};
use super::{CWake, deadline, write_message};
use baton_core::sched::{Wake, WakeReason};
use baton_core::shared::channel::{HeldMessages, Message};
use baton_core::shared::{SharedChannel, Words};
use baton_core::vm::{Sleeper, Vm, wake_from_outside};
use std::any::Any;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

/// `struct baton_message_kind`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CMessageKind {
    size: extern "C" fn(*const c_void) -> usize,
    end: extern "C" fn(*mut c_void),
    references: Option<extern "C" fn(*const c_void, *mut CVisitor<'_>)>,
}

/// A message of C. It is freed if it is dropped.
#[derive(Debug)]
pub(super) struct CMessage {
    pointer: usize,
    size: u64,
    kind: &'static CMessageKind,
}

impl CMessage {
    /// Takes a message over from C.
    pub(super) fn new(pointer: usize, kind: &'static CMessageKind) -> CMessage {
        let size = (kind.size)(pointer as *const c_void) as u64;
        let message = CMessage {
            pointer,
            size,
            kind,
        };
        message.each_reference(&mut Reference::is_stored);
        message
    }

    /// Calls `f` for each channel and dictionary that the message refers to.
    pub(super) fn each_reference(&self, f: &mut dyn FnMut(Reference)) {
        if let Some(references) = self.kind.references {
            let mut visitor = CVisitor::new(f);
            references(self.pointer as *const c_void, &raw mut visitor);
        }
    }

    pub(super) fn pointer(&self) -> usize {
        self.pointer
    }

    /// Gives the message to C.
    pub(super) fn into_pointer(self) -> usize {
        self.each_reference(&mut Reference::is_not_stored);
        let pointer = self.pointer;
        std::mem::forget(self);
        pointer
    }
}

impl Message for CMessage {
    fn size(&self) -> u64 {
        self.size
    }
}

impl Drop for CMessage {
    fn drop(&mut self) {
        self.each_reference(&mut Reference::is_not_stored);
        (self.kind.end)(self.pointer as *mut c_void);
    }
}

/// `struct baton_shared_channel`.
#[derive(Debug)]
pub(super) struct CSharedChannel {
    pub(super) channel: SharedChannel<CMessage, Sleeper>,
    kind: &'static CMessageKind,
    stored: Stored,
}

impl Container for CSharedChannel {
    fn stored(&self) -> &Stored {
        &self.stored
    }

    fn try_hold(&self) -> Option<Box<dyn Held + '_>> {
        Some(Box::new(self.channel.try_hold()?))
    }
}

impl Held for HeldMessages<'_, CMessage, Sleeper> {
    fn each_reference(&self, f: &mut dyn FnMut(Reference)) {
        self.iter().for_each(|message| message.each_reference(f));
    }

    fn take_all(&mut self) -> Box<dyn Any> {
        Box::new(self.take_all().collect::<Vec<_>>())
    }
}

/// Notes a reference of a message to a channel.
///
/// # Safety
/// The message has the reference.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_visit_channel(
    visitor: &mut CVisitor<'_>,
    channel: *const CSharedChannel,
) {
    // SAFETY: the caller's condition; the pointer is of `Arc::into_raw`.
    visitor.visit(unsafe { Reference::new(channel) });
}

impl CSharedChannel {
    pub(super) fn message(&self, pointer: u64) -> CMessage {
        CMessage::new(pointer as usize, self.kind)
    }
}

type CWords = Words<Sleeper>;

/// What a wait for a message has come to.
fn wake_of(reason: WakeReason, message: Option<CMessage>) -> CWake {
    Wake {
        value: message.map_or(0, |message| message.into_pointer() as u64),
        ..Wake::because(reason)
    }
    .into()
}

/// Makes a channel.
///
/// # Safety
/// `name` is a C string. `kind` lives as long as the program.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_shared_channel_new(
    capacity: u64,
    bytes: u64,
    name: *const c_char,
    kind: &'static CMessageKind,
) -> *const CSharedChannel {
    // SAFETY: the caller's condition.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
    Arc::into_raw(Arc::new(CSharedChannel {
        channel: SharedChannel::new(capacity, bytes, &name),
        kind,
        stored: Stored::default(),
    }))
}

/// Takes one more reference.
///
/// # Safety
/// The caller has a reference.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_shared_channel_hold(channel: *const CSharedChannel) {
    // SAFETY: the caller's condition; the pointer is of `Arc::into_raw`.
    unsafe { Arc::increment_strong_count(channel) };
}

/// Gives a reference back.
///
/// # Safety
/// The caller has a reference, and does not use it afterwards.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_shared_channel_release(channel: *const CSharedChannel) {
    // SAFETY: the caller's condition; the pointer is of `Arc::into_raw`.
    cycles::release(unsafe { Arc::from_raw(channel) });
}

/// How many messages are in a channel.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_shared_channel_length(channel: &CSharedChannel) -> u64 {
    channel.channel.len() as u64
}

/// Writes the name of a channel, or nothing.
///
/// # Safety
/// `name` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_shared_channel_name(
    channel: &CSharedChannel,
    name: *mut c_char,
    size: usize,
) {
    // SAFETY: the caller's condition.
    unsafe { write_message(name, size, channel.channel.name()) };
}

/// Closes a channel, by a thread that is in no VM.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_shared_close_from_outside(channel: &CSharedChannel) {
    let channel = &channel.channel;
    wake_from_outside(channel.close(), || channel.pass_on());
}

bridge! {
    fn baton_shared_send(
        vm, channel: &CSharedChannel, message: *mut c_void, timeout: i64
    ) -> CWake {
        let message = channel.message(message as u64);
        let (reason, back) = vm.send_shared(&channel.channel, message, deadline(timeout));
        wake_of(reason, back)
    }

    fn baton_shared_receive(vm, channel: &CSharedChannel, timeout: i64) -> CWake {
        let (reason, message) = vm.receive_shared(&channel.channel, deadline(timeout));
        wake_of(reason, message)
    }

    fn baton_shared_give_back(vm, channel: &CSharedChannel, message: *mut c_void) {
        vm.give_back_shared(&channel.channel, channel.message(message as u64));
    }

    fn baton_shared_close(vm, channel: &CSharedChannel) {
        vm.close_shared(&channel.channel);
    }

    fn baton_words_wait(
        vm, words: &CWords, index: u64, expected: i64, timeout: i64
    ) -> CWake {
        let reason = vm.wait_at_word(words, index as usize, expected, deadline(timeout));
        Wake::because(reason).into()
    }

    fn baton_words_wake(vm, words: &CWords, index: u64, n: u64) -> u64 {
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        vm.wake_word(words, index as usize, n) as u64
    }
}

/// Wakes all processes that wait at a word, by a thread that is in no VM.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_words_wake_from_outside(words: &CWords, index: u64) {
    let index = index as usize;
    let wake = || words.wake(index, usize::MAX);
    wake_from_outside(wake(), wake);
}

/// Makes some words that are 0. Null without memory for them.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_words_new(count: u64) -> *const CWords {
    let words = usize::try_from(count).ok().and_then(Words::new);
    words.map_or(std::ptr::null(), |words| Arc::into_raw(Arc::new(words)))
}

/// Takes one more reference.
///
/// # Safety
/// The caller has a reference.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_words_hold(words: *const CWords) {
    // SAFETY: the caller's condition; the pointer is of `Arc::into_raw`.
    unsafe { Arc::increment_strong_count(words) };
}

/// Gives a reference back.
///
/// # Safety
/// The caller has a reference, and does not use it afterwards.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_words_release(words: *const CWords) {
    // SAFETY: the caller's condition; the pointer is of `Arc::into_raw`.
    drop(unsafe { Arc::from_raw(words) });
}

/// How many references there are. Others may take or give back references at the same time, unless
/// the caller has the only one.
///
/// # Safety
/// The caller has a reference.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_words_references(words: *const CWords) -> u64 {
    // SAFETY: the caller's condition; the pointer is of `Arc::into_raw`.
    let words = std::mem::ManuallyDrop::new(unsafe { Arc::from_raw(words) });
    Arc::strong_count(&words) as u64
}

/// How many words there are.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_words_count(words: &CWords) -> u64 {
    words.len() as u64
}

/// The value of a word.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_words_load(words: &CWords, index: u64) -> i64 {
    words.load(index as usize)
}

/// Sets a word.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_words_store(words: &CWords, index: u64, value: i64) {
    words.store(index as usize, value);
}

/// Adds to a word. Returns the old value.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_words_add(words: &CWords, index: u64, n: i64) -> i64 {
    words.add(index as usize, n)
}

/// Sets a word. Returns the old value.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_words_exchange(words: &CWords, index: u64, value: i64) -> i64 {
    words.exchange(index as usize, value)
}

/// Sets a word if it has the expected value, which becomes the value that it had.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_words_compare(
    words: &CWords,
    index: u64,
    expected: &mut i64,
    value: i64,
) -> i32 {
    let outcome = words.compare(index as usize, *expected, value);
    *expected = outcome.unwrap_or_else(|present| present);
    i32::from(outcome.is_ok())
}
