//! Options of pcapng blocks: a code, a length, a value padded to four bytes.

use super::order::Order;

/// The options of a block, one after the other, until they end or are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options<'a> {
    pub(super) order: Order,
    pub(super) rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.rest.split_first_chunk::<4>()?;
        let (code, length) = (self.order.half(head, 0), usize::from(self.order.half(head, 2)));
        let value = rest.get(..length)?;
        self.rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        (code != END).then_some((code, value))
    }
}

const END: u16 = 0;
