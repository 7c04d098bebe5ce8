//! What follows a REQ: REP, RTU, and the end of a connection; or MRA and REJ, when there is none yet or never.
//!
//! Bytes 0-3 of each are the sender's number for the connection, 4-7 the receiver's ([`Communication`]); what is not
//! named is 0. The rest, the private data of the application, is 0 here and not read.

use super::{BODY, Communication, Endpoint, MadError, Request, get, put};
use crate::wire::psn::Psn;
use crate::wire::qpn::Qpn;
use crate::wire::timer::Timeout;

/// REP (IBTA vol. 1, 12.6.8): the asked end agrees. Places as in [`Request`]; Q_Key (8-11) and EECN (16-18) are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reply {
    /// 0-7: the numbers of the connection.
    pub communication: Communication,
    /// 12-14: the sender's queue pair.
    pub queue_pair: Qpn,
    /// 20-22: the sequence number of the first frame that it wants to receive.
    pub starting_psn: Psn,
    /// 24: how many READs and atomics at a time it will answer.
    pub responder_resources: u8,
    /// 25: how many READs and atomics at a time it will ask for.
    pub initiator_depth: u8,
    /// 26, bits 7-3: how long its NIC may take for an acknowledgement (target ACK delay).
    pub ack_delay: Timeout,
    /// 26, bits 2-1: whether the alternate path was accepted; 0 if it was.
    pub failover: u8,
    /// 26, bit 0: whether it counts credits.
    pub counts_credits: bool,
    /// 27, bits 7-5: how often the peer is to send again when this end is not ready; 7 is for ever.
    pub not_ready_retries: u8,
    /// 27, bit 4: whether its receives are shared between connections.
    pub shared_receives: bool,
    /// 28-35: the sender's NIC (local CA GUID).
    pub guid: u64,
}

/// RTU (IBTA vol. 1, 12.6.9): the asking end is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadyToUse {
    /// 0-7: the numbers of the connection.
    pub communication: Communication,
}

/// DREQ (IBTA vol. 1, 12.6.10): the connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DisconnectRequest {
    /// 0-7: the numbers of the connection.
    pub communication: Communication,
    /// 8-10: the receiver's queue pair.
    pub remote_queue_pair: Qpn,
}

/// DREP (IBTA vol. 1, 12.6.11): the connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DisconnectReply {
    /// 0-7: the numbers of the connection.
    pub communication: Communication,
}

/// MRA (IBTA vol. 1, 12.6.6): the message came, the answer takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReceiptAcknowledge {
    /// 0-7: the numbers of the connection.
    pub communication: Communication,
    /// 8, bits 7-6: which message came.
    pub received: Subject,
    /// 9, bits 7-3: how long the answer may take.
    pub service_timeout: Timeout,
}

/// REJ (IBTA vol. 1, 12.6.7): there will be no connection. Its additional information (the length in bits 7-1 of 9,
/// 72 bytes at 12) is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reject {
    /// 0-7: the numbers of the connection.
    pub communication: Communication,
    /// 8, bits 7-6: which message is refused.
    pub rejected: Subject,
    /// 10-11: why.
    pub reason: RejectReason,
}

/// Which message an MRA or REJ is about: two bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// 0: REQ.
    Request,
    /// 1: REP.
    Reply,
    /// 2: of a REJ, no message, because none came in time; of an MRA, one about an alternate path (LAP).
    Other,
}

/// Why a connection is refused (IBTA vol. 1, table 109; 12.6.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RejectReason(pub u16);

impl Reply {
    /// The reply of Linux to `request` (`rdma_accept`): it takes over what the request offers.
    #[must_use]
    pub fn new(answering: &Endpoint, request: &Request) -> Self {
        Self {
            communication: Communication { local: answering.communication, remote: request.local },
            queue_pair: answering.queue_pair,
            starting_psn: answering.starting_psn,
            responder_resources: request.initiator_depth,
            initiator_depth: request.responder_resources,
            ack_delay: Timeout::ACK_DELAY,
            failover: 0,
            counts_credits: request.counts_credits,
            not_ready_retries: 7,
            shared_receives: false,
            guid: answering.guid,
        }
    }

    pub(super) fn to_bytes(self) -> [u8; BODY] {
        let mut body = [0; BODY];
        self.communication.put(&mut body);
        put(&mut body, 12, self.queue_pair.to_bytes());
        put(&mut body, 20, self.starting_psn.to_bytes());
        put(&mut body, 24, [self.responder_resources, self.initiator_depth]);
        let delay = (self.ack_delay.code() << 3) | ((self.failover & 3) << 1) | u8::from(self.counts_credits);
        put(&mut body, 26, [delay, (self.not_ready_retries << 5) | (u8::from(self.shared_receives) << 4)]);
        put(&mut body, 28, self.guid.to_be_bytes());
        body
    }

    pub(super) fn parse(body: &[u8; BODY]) -> Self {
        let [responder_resources, initiator_depth, delay, retries] = get(body, 24);
        Self {
            communication: Communication::get(body),
            queue_pair: Qpn::parse(&get(body, 12)),
            starting_psn: Psn::parse(&get(body, 20)),
            responder_resources,
            initiator_depth,
            ack_delay: Timeout::from_low_bits(delay >> 3),
            failover: (delay >> 1) & 3,
            counts_credits: delay & 1 != 0,
            not_ready_retries: retries >> 5,
            shared_receives: retries & 0x10 != 0,
            guid: u64::from_be_bytes(get(body, 28)),
        }
    }
}

impl ReadyToUse {
    /// What the asking end says to `reply`.
    #[must_use]
    pub const fn new(reply: &Reply) -> Self {
        Self { communication: reply.communication.reversed() }
    }

    pub(super) fn to_bytes(self) -> [u8; BODY] {
        ids(self.communication)
    }

    pub(super) fn parse(body: &[u8; BODY]) -> Self {
        Self { communication: Communication::get(body) }
    }
}

impl DisconnectRequest {
    pub(super) fn to_bytes(self) -> [u8; BODY] {
        let mut body = ids(self.communication);
        put(&mut body, 8, self.remote_queue_pair.to_bytes());
        body
    }

    pub(super) fn parse(body: &[u8; BODY]) -> Self {
        Self { communication: Communication::get(body), remote_queue_pair: Qpn::parse(&get(body, 8)) }
    }
}

impl DisconnectReply {
    /// The answer to `request`.
    #[must_use]
    pub const fn new(request: &DisconnectRequest) -> Self {
        Self { communication: request.communication.reversed() }
    }

    pub(super) fn to_bytes(self) -> [u8; BODY] {
        ids(self.communication)
    }

    pub(super) fn parse(body: &[u8; BODY]) -> Self {
        Self { communication: Communication::get(body) }
    }
}

impl ReceiptAcknowledge {
    pub(super) fn to_bytes(self) -> [u8; BODY] {
        let mut body = ids(self.communication);
        put(&mut body, 8, [self.received.code() << 6, self.service_timeout.code() << 3]);
        body
    }

    pub(super) fn parse(body: &[u8; BODY]) -> Result<Self, MadError> {
        Ok(Self {
            communication: Communication::get(body),
            received: Subject::from_code("MRA", body[8] >> 6)?,
            service_timeout: Timeout::from_low_bits(body[9] >> 3),
        })
    }
}

impl Reject {
    pub(super) fn to_bytes(self) -> [u8; BODY] {
        let mut body = ids(self.communication);
        put(&mut body, 8, [self.rejected.code() << 6]);
        put(&mut body, 10, self.reason.0.to_be_bytes());
        body
    }

    pub(super) fn parse(body: &[u8; BODY]) -> Result<Self, MadError> {
        Ok(Self {
            communication: Communication::get(body),
            rejected: Subject::from_code("REJ", body[8] >> 6)?,
            reason: RejectReason(u16::from_be_bytes(get(body, 10))),
        })
    }
}

impl Subject {
    const fn code(self) -> u8 {
        match self {
            Self::Request => 0,
            Self::Reply => 1,
            Self::Other => 2,
        }
    }

    const fn from_code(message: &'static str, code: u8) -> Result<Self, MadError> {
        match code {
            0 => Ok(Self::Request),
            1 => Ok(Self::Reply),
            2 => Ok(Self::Other),
            about => Err(MadError::About { message, about }),
        }
    }
}

impl RejectReason {
    /// No answer came in time.
    pub const TIMEOUT: Self = Self(4);
    /// Nobody listens at the service.
    pub const INVALID_SERVICE: Self = Self(8);
    /// The application refuses.
    pub const CONSUMER: Self = Self(28);
}

fn ids(communication: Communication) -> [u8; BODY] {
    let mut body = [0; BODY];
    communication.put(&mut body);
    body
}
