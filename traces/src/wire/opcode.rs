//! The opcodes of the base transport header, and one table of what each one carries.
//!
//! Reliable connection (`0x00..`), the unreliable datagram's SEND (connection management uses it), and the
//! congestion notification of RoCEv2. Not here: unreliable connections, XRC and vendor opcodes; frames with
//! these still parse, with everything behind the base header as payload.

use std::fmt;

/// Which side of a connection sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The requester: takes a sequence number of its own.
    Request,
    /// The responder: carries the sequence number that it answers.
    Response,
    /// Neither: a congestion notification.
    Notification,
}

/// What is asked for or answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Into a buffer that the receiver posted.
    Send,
    /// RDMA WRITE: into memory that the requester names.
    Write,
    /// RDMA READ: out of memory that the requester names.
    Read,
    /// Acknowledgement, positive or negative.
    Acknowledge,
    /// Compare-and-swap or fetch-and-add on eight bytes.
    Atomic,
    /// Congestion was experienced.
    Congestion,
}

/// A frame's place in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// The whole message.
    Only,
}

impl Place {
    /// Whether a message starts here.
    #[must_use]
    pub const fn starts(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether a message ends here.
    #[must_use]
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// What follows the base transport header of an opcode. The headers stand in the order of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Which side sends it.
    pub role: Role,
    /// What it is about.
    pub operation: Operation,
    /// Its place in the message.
    pub place: Place,
    /// Datagram extended header, 8 bytes.
    pub deth: bool,
    /// RDMA extended header, 16 bytes.
    pub reth: bool,
    /// Atomic extended header, 28 bytes.
    pub atomic: bool,
    /// Acknowledge extended header, 4 bytes.
    pub aeth: bool,
    /// Atomic acknowledge extended header, 8 bytes.
    pub atomic_ack: bool,
    /// Immediate data, 4 bytes.
    pub immediate: bool,
    /// Invalidate extended header, 4 bytes.
    pub invalidate: bool,
    /// Whether payload may follow.
    pub payload: bool,
}

impl Shape {
    /// The bytes of all extension headers together.
    #[must_use]
    #[inline(always)]
    pub const fn extension_length(&self) -> usize {
        let mut length = 0;
        if self.deth {
            length += 8;
        }
        if self.reth {
            length += 16;
        }
        if self.atomic {
            length += 28;
        }
        if self.aeth {
            length += 4;
        }
        if self.atomic_ack {
            length += 8;
        }
        if self.immediate {
            length += 4;
        }
        if self.invalidate {
            length += 4;
        }
        length
    }
}

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $byte:literal, $text:literal,
        $role:ident $operation:ident $place:ident [$($header:ident)*];)*) => {
        /// An opcode that is known here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Opcode {
            $($(#[$doc])* #[doc = concat!("`", $text, "`.")] $name = $byte,)*
        }

        impl Opcode {
            /// All of them, by number.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The opcode with this byte, if it is known here.
            #[must_use]
            #[inline]
            pub const fn from_byte(byte: u8) -> Option<Self> {
                OPCODES[byte as usize]
            }

            /// Its byte on the wire.
            #[must_use]
            #[inline]
            pub const fn byte(self) -> u8 {
                match self {
                    $(Self::$name => $byte,)*
                }
            }

            /// Its name, as Wireshark writes it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// What it carries.
            #[must_use]
            #[inline]
            pub const fn shape(self) -> Shape {
                SHAPES[self.byte() as usize]
            }

            const fn look_up(self) -> Shape {
                match self {
                    $(Self::$name => Shape {
                        $($header: true,)*
                        ..bare(Role::$role, Operation::$operation, Place::$place)
                    },)*
                }
            }
        }
    };
}

// IBTA vol. 1, table 38 (9.2.1); annex A17.9.3 for the congestion notification.
opcodes! {
    SendFirst = 0x00, "RC SEND First", Request Send First [payload];
    SendMiddle = 0x01, "RC SEND Middle", Request Send Middle [payload];
    SendLast = 0x02, "RC SEND Last", Request Send Last [payload];
    SendLastImmediate = 0x03, "RC SEND Last Immediate", Request Send Last [immediate payload];
    SendOnly = 0x04, "RC SEND Only", Request Send Only [payload];
    SendOnlyImmediate = 0x05, "RC SEND Only Immediate", Request Send Only [immediate payload];
    WriteFirst = 0x06, "RC RDMA WRITE First", Request Write First [reth payload];
    WriteMiddle = 0x07, "RC RDMA WRITE Middle", Request Write Middle [payload];
    WriteLast = 0x08, "RC RDMA WRITE Last", Request Write Last [payload];
    WriteLastImmediate = 0x09, "RC RDMA WRITE Last Immediate", Request Write Last [immediate payload];
    WriteOnly = 0x0a, "RC RDMA WRITE Only", Request Write Only [reth payload];
    WriteOnlyImmediate = 0x0b, "RC RDMA WRITE Only Immediate", Request Write Only [reth immediate payload];
    ReadRequest = 0x0c, "RC RDMA READ Request", Request Read Only [reth];
    ReadResponseFirst = 0x0d, "RC RDMA READ response First", Response Read First [aeth payload];
    ReadResponseMiddle = 0x0e, "RC RDMA READ response Middle", Response Read Middle [payload];
    ReadResponseLast = 0x0f, "RC RDMA READ response Last", Response Read Last [aeth payload];
    ReadResponseOnly = 0x10, "RC RDMA READ response Only", Response Read Only [aeth payload];
    Acknowledge = 0x11, "RC Acknowledge", Response Acknowledge Only [aeth];
    AtomicAcknowledge = 0x12, "RC ATOMIC Acknowledge", Response Atomic Only [aeth atomic_ack];
    CompareSwap = 0x13, "RC CmpSwap", Request Atomic Only [atomic];
    FetchAdd = 0x14, "RC FetchAdd", Request Atomic Only [atomic];
    SendLastInvalidate = 0x16, "RC SEND Last with Invalidate", Request Send Last [invalidate payload];
    SendOnlyInvalidate = 0x17, "RC SEND Only with Invalidate", Request Send Only [invalidate payload];
    DatagramSendOnly = 0x64, "UD SEND Only", Request Send Only [deth payload];
    DatagramSendOnlyImmediate = 0x65, "UD SEND Only Immediate", Request Send Only [deth immediate payload];
    CongestionNotification = 0x81, "CNP", Notification Congestion Only [payload];
}

/// The opcodes by byte, for who takes many frames apart.
static OPCODES: [Option<Opcode>; 256] = {
    let mut opcodes = [None; 256];
    let mut index = 0;
    while index < Opcode::ALL.len() {
        let opcode = Opcode::ALL[index];
        opcodes[opcode.byte() as usize] = Some(opcode);
        index += 1;
    }
    opcodes
};

/// Their shapes; what is no opcode is not asked for.
static SHAPES: [Shape; 256] = {
    let mut shapes = [bare(Role::Request, Operation::Send, Place::Only); 256];
    let mut index = 0;
    while index < Opcode::ALL.len() {
        let opcode = Opcode::ALL[index];
        shapes[opcode.byte() as usize] = opcode.look_up();
        index += 1;
    }
    shapes
};

impl Opcode {
    /// Whether it belongs to a reliable connection: it takes or answers a sequence number.
    #[must_use]
    pub const fn is_reliable_connection(self) -> bool {
        self.byte() < 0x20
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

const fn bare(role: Role, operation: Operation, place: Place) -> Shape {
    Shape {
        role,
        operation,
        place,
        deth: false,
        reth: false,
        atomic: false,
        aeth: false,
        atomic_ack: false,
        immediate: false,
        invalidate: false,
        payload: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_names_at_most_one_opcode() {
        for byte in 0..=u8::MAX {
            if let Some(opcode) = Opcode::from_byte(byte) {
                assert_eq!(opcode.byte(), byte);
            }
        }
        assert_eq!((0..=u8::MAX).filter_map(Opcode::from_byte).count(), Opcode::ALL.len());
        assert_eq!(Opcode::from_byte(0x15), None);
        assert_eq!(Opcode::from_byte(0x80), None);
    }

    /// Bytes behind BTH, from the frame sizes of captures: 58 + P, 74 + P and so on, less 58.
    #[test]
    fn extension_headers_have_the_sizes_of_the_specification() {
        for (opcode, length) in [
            (Opcode::SendFirst, 0),
            (Opcode::WriteFirst, 16),
            (Opcode::WriteMiddle, 0),
            (Opcode::WriteLastImmediate, 4),
            (Opcode::WriteOnlyImmediate, 20),
            (Opcode::ReadRequest, 16),
            (Opcode::ReadResponseMiddle, 0),
            (Opcode::ReadResponseLast, 4),
            (Opcode::Acknowledge, 4),
            (Opcode::AtomicAcknowledge, 12),
            (Opcode::FetchAdd, 28),
            (Opcode::SendOnlyInvalidate, 4),
            (Opcode::DatagramSendOnly, 8),
            (Opcode::CongestionNotification, 0),
        ] {
            assert_eq!(opcode.shape().extension_length(), length, "{opcode}");
        }
    }

    #[test]
    fn only_frames_that_start_a_write_name_memory() {
        for opcode in Opcode::ALL {
            let shape = opcode.shape();
            if shape.operation == Operation::Write {
                assert_eq!(shape.reth, shape.place.starts(), "{opcode}");
            }
        }
    }
}
