//! Numbers that name things in a trace, each a type of its own.
//!
//! Hosts, NICs and ranks are counted from zero over the whole plan, so choosing a part of the plan renames nothing.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index.
            #[must_use]
            pub fn index(self) -> usize {
                usize::try_from(self.0).expect("a usize holds 32 bits on all supported machines")
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

number!(
    /// A host of the plan's cluster.
    HostId, "host"
);
number!(
    /// A network interface, counted over all hosts: NIC `n` of host `h` is `h * nics_per_host + n`.
    NicId, "nic"
);
number!(
    /// A rank: one GPU's process in the training job.
    Rank, "rank"
);
number!(
    /// One end of a connection: the queue pair that a NIC owns. Its peer has a number of its own.
    QueuePairId, "qp"
);
number!(
    /// A process group (communicator) of the plan.
    GroupId, "group"
);

/// A node of one host's dependency graph. A node waits only for smaller ids of the same host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u64);

/// A message: the `sequence`-th that the queue pair `sender` sends, counted from zero.
///
/// Made of what both ends know, so any part of a trace names a message alike. Written `SENDER.SEQUENCE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// The queue pair that sends it.
    pub sender: QueuePairId,
    /// Its place among the messages of that queue pair.
    pub sequence: u32,
}

/// Why a text is not a message id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a message; write SENDER.SEQUENCE, for example 3.17: the message 17 of queue pair 3")]
pub struct MessageIdError(String);

impl MessageId {
    /// The id as one number: the sender in the high half.
    #[must_use]
    pub fn to_u64(self) -> u64 {
        (u64::from(self.sender.0) << 32) | u64::from(self.sequence)
    }

    /// The inverse of [`Self::to_u64`].
    #[must_use]
    pub fn from_u64(number: u64) -> Self {
        let low = |number: u64| u32::try_from(number & 0xffff_ffff).expect("32 bits are left");
        Self { sender: QueuePairId(low(number >> 32)), sequence: low(number) }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.sender.0, self.sequence)
    }
}

impl FromStr for MessageId {
    type Err = MessageIdError;

    fn from_str(text: &str) -> Result<Self, MessageIdError> {
        text.split_once('.')
            .and_then(|(sender, sequence)| {
                Some(Self { sender: QueuePairId(sender.parse().ok()?), sequence: sequence.parse().ok()? })
            })
            .ok_or_else(|| MessageIdError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_id_is_read_as_it_is_written() {
        let id = MessageId { sender: QueuePairId(3), sequence: 17 };
        assert_eq!(id.to_string(), "3.17");
        assert_eq!("3.17".parse(), Ok(id));
        assert_eq!(MessageId::from_u64(id.to_u64()), id);
        assert_eq!(id.to_u64(), 0x0000_0003_0000_0011);
        assert!("17".parse::<MessageId>().is_err());
    }
}
