//! Impairments as they are written: `[[fabric.impairments]]`.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};

use super::super::chance::ChanceText;

/// `[[fabric.impairments]]`: what happens to which frames.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImpairmentTable {
    /// `loss`, `ce` (a switch marks the frame), `delay`, or `rnr` (the receiver is not ready for the message).
    pub kind: String,
    /// The chance of each frame (`rnr`: of each attempt at a message): `"0.1%"` or `0.001`. One of `rate`, `burst`, `message`.
    pub rate: Option<ChanceText>,
    /// Frames that follow each other.
    pub burst: Option<BurstTable>,
    /// The number of a message on its queue pair, from 0.
    pub message: Option<u32>,
    /// With `message`: the first frame of it, from 1. Acknowledgements: that of this frame, or all if not given.
    pub frame: Option<u32>,
    /// With `frame`: how many frames; 1 if not given.
    pub count: Option<u32>,
    /// With `message`: the first transmission of the frame that is meant, from 1; 1 if not given.
    pub occurrence: Option<u32>,
    /// With `message`: how many transmissions (`rnr`: attempts) in a row; 1 if not given.
    pub times: Option<u32>,
    /// With `delay`: how much later the frame arrives.
    pub delay: Option<String>,
    /// `data`, `ack` (acknowledgements of either kind), `cts`, `cnp` or `all`; `data` if not given.
    pub frames: Option<String>,
    /// Only frames that this NIC sends: `"host0-nic0"`, or its number.
    pub from: Option<NicName>,
    /// Only frames to this NIC.
    pub to: Option<NicName>,
    /// Only frames that this queue pair sends.
    pub queue_pair: Option<u32>,
    /// Only frames of this class of traffic, for example `dp_gradients`.
    pub class: Option<String>,
    /// Only frames sent from the first time of the trace on and before the second.
    pub between: Option<[String; 2]>,
}

/// Frames that follow each other on a queue pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BurstTable {
    /// The chance that a burst begins at a frame.
    pub start: ChanceText,
    /// Frames of a burst.
    pub frames: u32,
}

/// A NIC as it is written: its name or its number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct NicName(pub(in super::super) String);

impl<'de> Deserialize<'de> for NicName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameVisitor)
    }
}

impl JsonSchema for NicName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NicName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "a NIC: \"host0-nic0\", or its number in the manifest",
            "type": ["string", "integer"]
        })
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = NicName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a NIC: \"host0-nic0\" or its number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<NicName, E> {
        Ok(NicName(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<NicName, E> {
        Ok(NicName(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<NicName, E> {
        Ok(NicName(number.to_string()))
    }
}
