//! Messages put together from their frames: what each frame may be, and what has arrived when the last is there.

use traces::wire::opcode::{Operation, Place};
use traces::wire::{ParsedFrame, Psn};

/// A message that arrived whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// The number of its first frame.
    pub(crate) first_psn: Psn,
    /// What asks for it.
    pub(crate) operation: Operation,
    /// Its bytes; those of a READ are what it asks for.
    pub(crate) bytes: u64,
    /// Where it was written; a SEND does not say.
    pub(crate) address: Option<u64>,
    /// The immediate value of its last frame.
    pub(crate) immediate: Option<u32>,
}

/// A message that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    first_psn: Psn,
    operation: Operation,
    address: Option<u64>,
    /// What its RETH announces.
    length: Option<u64>,
    received: u64,
}

impl Open {
    /// The number of its first frame.
    pub(crate) const fn first_psn(&self) -> Psn {
        self.first_psn
    }

    /// The message that is open after a frame, and the one that ends with it. `pattern`: whether its bytes are known.
    pub(crate) fn with(
        before: Option<Self>,
        frame: &ParsedFrame<'_>,
        path_mtu: usize,
        pattern: bool,
    ) -> Result<(Option<Self>, Option<Delivered>), String> {
        let shape = frame.bth.opcode().expect("the judge has looked").shape();
        let length = frame.payload_length;
        let right = match shape.place {
            Place::First | Place::Middle => length == path_mtu,
            Place::Last => (1..=path_mtu).contains(&length),
            Place::Only => length <= path_mtu,
        };
        if !right {
            return Err(format!("{length} bytes of payload; the path MTU is {path_mtu}"));
        }
        let mut open = match (before, shape.place.starts()) {
            (None, true) => Self {
                first_psn: frame.bth.psn,
                operation: shape.operation,
                address: frame.extensions.reth.map(|reth| reth.virtual_address),
                length: frame.extensions.reth.map(|reth| reth.length.into()),
                received: 0,
            },
            (Some(open), false) if open.operation == shape.operation => open,
            (Some(open), _) => {
                return Err(format!("the {:?} of PSN {} has not ended", open.operation, open.first_psn));
            }
            (None, false) => return Err("no message has begun".to_owned()),
        };
        // Control writes are small and whole, and have no immediate; they carry what they say.
        let control = shape.place == Place::Only && !shape.immediate;
        if pattern && !control {
            let wrong =
                frame.payload.iter().zip(open.received..).find(|&(&byte, place)| byte != expected(place));
            if let Some((byte, place)) = wrong {
                return Err(format!("byte {place} of the message is {byte}, should be {}", expected(place)));
            }
        }
        open.received += u64::try_from(length).unwrap();
        let Self { received, .. } = open;
        if let Some(length) = open.length
            && (received > length || (shape.place.ends() && received != length))
        {
            return Err(format!("{received} bytes of the message are there, its RETH announces {length}"));
        }
        if !shape.place.ends() {
            return Ok((Some(open), None));
        }
        let delivered = Delivered {
            first_psn: open.first_psn,
            operation: open.operation,
            bytes: received,
            address: open.address,
            immediate: frame.extensions.immediate.map(|immediate| u32::from_be_bytes(immediate.0)),
        };
        Ok((None, Some(delivered)))
    }
}

/// The packet sequence numbers that a request takes: a READ as many as its answer has frames.
pub(crate) fn numbers(request: &ParsedFrame<'_>, path_mtu: usize) -> u32 {
    let operation = request.bth.opcode().map(|opcode| opcode.shape().operation);
    match request.extensions.reth {
        Some(reth) if operation == Some(Operation::Read) => {
            reth.length.div_ceil(u32::try_from(path_mtu).unwrap()).max(1)
        }
        _ => 1,
    }
}

/// Byte `place` of a message, by the documented formula.
fn expected(place: u64) -> u8 {
    u8::try_from((167 * (place % 256) + 13) % 256).unwrap()
}
