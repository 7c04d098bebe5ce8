//! What a trace is: units and ids, the RoCEv2 wire format, capture files, the dependency graph, the trace folder.
//!
//! The generator writes traces and the replayer reads them; neither knows the other. Nothing here opens a
//! file but [`folder`]. The modules stand in the order in which data flows: each uses only those above it.
#![forbid(unsafe_code)]

pub mod unit;
pub mod id;
pub mod origin;
pub mod wire;
pub mod pcap;
pub mod graph;
pub mod manifest;
pub mod folder;
pub mod critic;
pub mod audit;
