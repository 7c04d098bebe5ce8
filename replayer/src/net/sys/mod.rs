//! What the kernel has to be told without Rust's help: batches of datagrams in one call, and two socket options.
//!
//! The only room with unsafe code. Each function takes and gives safe values, and what the kernel is lent it has
//! back when the function returns.
#![expect(unsafe_code, reason = "system calls that no safe crate offers; each block gives its reason")]

pub(in crate::net) mod option;
pub(in crate::net) mod receive;
pub(in crate::net) mod send;

/// A message header that names nothing: no address, no data, no control.
fn empty_message() -> libc::mmsghdr {
    // SAFETY: the structure is integers and raw pointers, for which all bits zero is a value (zero, null).
    unsafe { std::mem::zeroed() }
}
