use std::fs;

use super::*;
use crate::graph::Head;
use crate::id::QueuePairId;
use crate::manifest::{Host, Manifest, Totals, Transport};

fn manifest() -> Manifest {
    let host = Host {
        id: HostId(0),
        name: "host0".to_owned(),
        ranks: vec![],
        graph: Some(TraceFolderWriter::graph_name(HostId(0))),
    };
    Manifest {
        schema_version: FORMAT_VERSION,
        generator: "test".to_owned(),
        name: "test".to_owned(),
        seed: 1,
        plan_digest: "d".to_owned(),
        epoch_ns: 0,
        steps: 1,
        duration_ns: 0,
        step_ends_ns: vec![0],
        ideal_step_ns: 0,
        transport: Transport {
            path_mtu_bytes: 4096,
            mtu_bytes: 9000,
            dscp: 26,
            ecn: 2,
            ttl: 255,
            nic_profile: "mlx5-nccl".to_owned(),
            cnp_dscp: 48,
            cnp_interval_ns: 4_000,
            congestion_control: "dcqcn".to_owned(),
            ack_interval: Some(256),
            setup: "none".to_owned(),
            udp_port: 4791,
            vlan: None,
            payload: "pattern".to_owned(),
            snap_bytes: None,
        },
        hosts: vec![host],
        nics: vec![],
        queue_pairs: vec![],
        groups: vec![],
        totals: Totals::default(),
    }
}

fn write(place: &std::path::Path, existing: Existing) -> Result<PathBuf, FolderError> {
    let writer = TraceFolderWriter::create(place, existing)?;
    let head = Head { host: HostId(0), plan_digest: "d".to_owned() };
    writer.graph(&head)?.finish().unwrap();
    writer.finish(&manifest(), "version = 1\n")
}

#[test]
fn what_was_written_is_opened() {
    let place = tempfile::tempdir().unwrap();
    let path = write(&place.path().join("a/b/trace"), Existing::Keep).unwrap();
    let folder = TraceFolder::open(path).unwrap();
    assert_eq!(folder.manifest(), &manifest());
    assert_eq!(folder.plan_text().unwrap(), "version = 1\n");
    assert_eq!(folder.graph(HostId(0)).unwrap().count(), 0);
    assert!(matches!(folder.graph(HostId(1)), Err(FolderError::NoGraph { .. })));
    assert!(matches!(folder.captures(NicId(0)), Err(FolderError::NoCapture { .. })));
}

#[test]
fn a_folder_that_is_not_finished_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    drop(TraceFolderWriter::create(place.path().join("trace"), Existing::Keep).unwrap());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn an_existing_folder_is_kept_unless_asked_and_a_foreign_one_always() {
    let place = tempfile::tempdir().unwrap();
    let trace = place.path().join("trace");
    write(&trace, Existing::Keep).unwrap();
    assert!(matches!(write(&trace, Existing::Keep), Err(FolderError::Exists { .. })));
    write(&trace, Existing::Replace).unwrap();
    let foreign = place.path().join("letters");
    fs::create_dir(&foreign).unwrap();
    assert!(matches!(write(&foreign, Existing::Replace), Err(FolderError::Foreign { .. })));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "nothing else is left behind");
}

#[test]
fn a_folder_without_manifest_is_not_a_trace_and_a_missing_one_is_not_found() {
    let place = tempfile::tempdir().unwrap();
    assert!(matches!(TraceFolder::open(place.path()), Err(FolderError::NotATrace { .. })));
    let missing = TraceFolder::open(place.path().join("nowhere")).unwrap_err();
    assert!(matches!(missing, FolderError::Io { doing: "open", .. }), "{missing}");
}

#[test]
fn another_version_a_broken_manifest_and_a_missing_graph_are_told_apart() {
    let place = tempfile::tempdir().unwrap();
    let path = write(&place.path().join("trace"), Existing::Keep).unwrap();
    let file = path.join("manifest.json");
    let text = fs::read_to_string(&file).unwrap();

    fs::write(&file, text.replace("\"schema_version\": 1", "\"schema_version\": 7")).unwrap();
    assert!(matches!(TraceFolder::open(&path), Err(FolderError::Version { found: 7, .. })));

    fs::write(&file, &text[..text.len() / 2]).unwrap();
    assert!(matches!(TraceFolder::open(&path), Err(FolderError::Manifest { .. })));

    fs::write(&file, text.replace("graph/host0.graph", "../../host0.graph")).unwrap();
    let error = TraceFolder::open(&path).unwrap_err().to_string();
    assert!(error.contains("`../../host0.graph` leads out of the folder"), "{error}");

    fs::write(&file, &text).unwrap();
    fs::remove_file(path.join("graph/host0.graph")).unwrap();
    assert!(matches!(TraceFolder::open(&path), Err(FolderError::Io { doing: "find", .. })));
}

#[test]
fn a_queue_pair_whose_peer_does_not_lead_back_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let writer = TraceFolderWriter::create(place.path().join("trace"), Existing::Keep).unwrap();
    let mut manifest = manifest();
    manifest.hosts[0].graph = None;
    manifest.nics.push(crate::manifest::Nic {
        id: NicId(0),
        host: HostId(0),
        name: "host0-nic0".to_owned(),
        mac: "02:00:00:00:00:01".to_owned(),
        addresses: vec![],
        link_bps: 1,
        pcap: vec![],
        frames_sent: 0,
        frames_received: 0,
        payload_bytes_sent: 0,
        payload_bytes_received: 0,
        payload_bytes_repeated: 0,
        frame_bytes_sent: 0,
        frame_bytes_received: 0,
        classes: vec![],
    });
    manifest.queue_pairs.push(crate::manifest::QueuePair {
        id: QueuePairId(0),
        nic: NicId(0),
        peer: QueuePairId(1),
        qpn: 0x124,
        source_port: 50_800,
        first_psn: 0,
        rkey: 1,
        address: 0,
        connection: 0,
        lane: 0,
        sends_data: true,
        group: crate::id::GroupId(0),
        channel: 0,
        rank: crate::id::Rank(0),
    });
    let path = writer.finish(&manifest, "").unwrap();
    let error = TraceFolder::open(path).unwrap_err().to_string();
    assert!(error.contains("its peer qp1 leads back to None"), "{error}");
}
