//! Tables for other programs: `flows.csv`, one row a flow, and `intervals.ndjson`, one line a NIC and interval.
//!
//! Columns of flows are named as the Open Traffic Generator names its RoCEv2 flow metrics, with units appended. An empty
//! field is a value that was not measured.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

/// What one queue pair sent to its peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowRow {
    /// Its name: `qp3`.
    pub flow_name: String,
    /// The NIC that sends.
    pub port_tx: String,
    /// The NIC that receives.
    pub port_rx: String,
    /// The number of the sending queue pair.
    pub src_qp: u32,
    /// The number of the receiving queue pair, which frames carry.
    pub dest_qp: u32,
    /// The group that it serves: its kind and number.
    pub group: String,
    /// The channel of the group's collectives.
    pub channel: u32,
    /// Data frames sent, retransmissions included.
    pub data_frames_tx: u64,
    /// Data frames received, duplicates included.
    pub data_frames_rx: u64,
    /// Data frames sent again.
    pub data_frames_retransmitted: u64,
    /// Data frames that had not arrived when the run had drained; unknown if one end did not report.
    pub data_frames_lost: Option<u64>,
    /// Data frames that arrived again.
    pub data_frames_duplicated: u64,
    /// Data frames that arrived after one that was sent later.
    pub frame_sequence_error: u64,
    /// Payload sent, retransmissions included.
    pub tx_bytes: u64,
    /// Payload received, duplicates included.
    pub rx_bytes: u64,
    /// Messages sent.
    pub message_tx: u64,
    /// Messages that arrived whole.
    pub message_complete_rx: u64,
    /// Acknowledgements that its sender received.
    pub ack_rx: u64,
    /// Negative acknowledgements that its sender received.
    pub nak_rx: u64,
    /// Times that no acknowledgement came in time.
    pub timeouts: u64,
    /// Arriving frames that a switch had marked as congested.
    pub ecn_ce_rx: u64,
    /// From the intended time of the first frame to the last arrival.
    pub flow_completion_time_ns: Option<u64>,
    /// The smallest service time.
    pub min_latency_ns: Option<u64>,
    /// The largest service time.
    pub max_latency_ns: Option<u64>,
    /// The first departure, from the start of the run.
    pub first_timestamp_ns: Option<u64>,
    /// The last arrival, from the start of the run.
    pub last_timestamp_ns: Option<u64>,
}

/// What one NIC did in one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntervalRow {
    /// The version of this line's names.
    pub schema_version: u32,
    /// The NIC.
    pub nic: String,
    /// When the interval began, from the start of the run.
    pub start_ns: u64,
    /// How long it was.
    pub duration_ns: u64,
    /// Payload sent in it, retransmissions included.
    pub payload_bytes_sent: u64,
    /// Payload received in it, duplicates included.
    pub payload_bytes_received: u64,
    /// Frames sent in it.
    pub frames_sent: u64,
    /// Frames received in it.
    pub frames_received: u64,
    /// Bytes of whole frames sent in it.
    pub frame_bytes_sent: u64,
    /// Bytes of whole frames received in it.
    pub frame_bytes_received: u64,
}

/// The version of the lines of `intervals.ndjson`.
pub const INTERVALS_VERSION: u32 = 1;

/// Writes `flows.csv`.
pub(super) fn write_flows(output: &mut dyn Write, flows: &[FlowRow]) -> io::Result<()> {
    let names: Vec<_> = FlowRow::default().fields().into_iter().map(|(name, _)| name).collect();
    writeln!(output, "{}", names.join(","))?;
    for flow in flows {
        let values: Vec<_> = flow.fields().into_iter().map(|(_, value)| quoted(&value)).collect();
        writeln!(output, "{}", values.join(","))?;
    }
    Ok(())
}

/// Writes `intervals.ndjson`.
pub(super) fn write_intervals(output: &mut dyn Write, intervals: &[IntervalRow]) -> io::Result<()> {
    for interval in intervals {
        serde_json::to_writer(&mut *output, interval)?;
        output.write_all(b"\n")?;
    }
    Ok(())
}

impl FlowRow {
    /// Columns and values, in order.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let optional = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        vec![
            ("flow_name", self.flow_name.clone()),
            ("port_tx", self.port_tx.clone()),
            ("port_rx", self.port_rx.clone()),
            ("src_qp", self.src_qp.to_string()),
            ("dest_qp", self.dest_qp.to_string()),
            ("group", self.group.clone()),
            ("channel", self.channel.to_string()),
            ("data_frames_tx", self.data_frames_tx.to_string()),
            ("data_frames_rx", self.data_frames_rx.to_string()),
            ("data_frames_retransmitted", self.data_frames_retransmitted.to_string()),
            ("data_frames_lost", optional(self.data_frames_lost)),
            ("data_frames_duplicated", self.data_frames_duplicated.to_string()),
            ("frame_sequence_error", self.frame_sequence_error.to_string()),
            ("tx_bytes", self.tx_bytes.to_string()),
            ("rx_bytes", self.rx_bytes.to_string()),
            ("message_tx", self.message_tx.to_string()),
            ("message_complete_rx", self.message_complete_rx.to_string()),
            ("ack_rx", self.ack_rx.to_string()),
            ("nak_rx", self.nak_rx.to_string()),
            ("timeouts", self.timeouts.to_string()),
            ("ecn_ce_rx", self.ecn_ce_rx.to_string()),
            ("flow_completion_time_ns", optional(self.flow_completion_time_ns)),
            ("min_latency_ns", optional(self.min_latency_ns)),
            ("max_latency_ns", optional(self.max_latency_ns)),
            ("first_timestamp_ns", optional(self.first_timestamp_ns)),
            ("last_timestamp_ns", optional(self.last_timestamp_ns)),
        ]
    }
}

/// A field as RFC 4180 wants it.
fn quoted(value: &str) -> String {
    if value.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_a_row_and_what_was_not_measured_is_empty() {
        let flow = FlowRow {
            flow_name: "qp3".to_owned(),
            group: "data, replica 1".to_owned(),
            tx_bytes: 4_096,
            max_latency_ns: Some(9),
            ..FlowRow::default()
        };
        let mut text = Vec::new();
        write_flows(&mut text, &[flow]).unwrap();
        let text = String::from_utf8(text).unwrap();
        let (head, row) = text.split_once('\n').unwrap();
        assert!(head.starts_with("flow_name,port_tx,port_rx,src_qp,dest_qp,group,"), "{head}");
        assert_eq!(row, "qp3,,,0,0,\"data, replica 1\",0,0,0,0,,0,0,4096,0,0,0,0,0,0,0,,,9,,\n");
    }

    #[test]
    fn an_interval_is_a_line() {
        let interval =
            IntervalRow { schema_version: 1, nic: "host0-nic0".to_owned(), ..IntervalRow::default() };
        let mut text = Vec::new();
        write_intervals(&mut text, &[interval.clone(), interval.clone()]).unwrap();
        let lines: Vec<_> = std::str::from_utf8(&text).unwrap().lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(serde_json::from_str::<IntervalRow>(lines[1]).unwrap(), interval);
    }
}
