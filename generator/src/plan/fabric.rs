//! `[fabric]`: its meaning, and how it is written out.

use traces::unit::{Bytes, Nanos, duration_text, size_text};
use traces::wire::Ecn;

use super::chance::{Chance, ChanceText};
use super::dcqcn;
use super::error::Wrong;
use super::file::{EcnTable, FabricTable};
use super::impairments::{self, Surroundings};
use super::value::{choice, positive, quantity, wrong};
use super::{Cluster, Fabric, Marking, Transport};

/// The meaning of the table, beside a cluster and a transport.
pub(super) fn resolve(
    table: &FabricTable,
    cluster: &Cluster,
    transport: &Transport,
) -> Result<Fabric, Wrong> {
    choice(&["fabric", "model"], table.model.as_deref(), &["ideal"])?;
    let quantum = table.quantum.unwrap_or(16);
    positive(&["fabric", "quantum"], u64::from(quantum))?;
    let marking = table.ecn.as_ref().map(|ecn| marking(ecn, transport)).transpose()?;
    let around = Surroundings {
        hosts: cluster.hosts,
        nics_per_host: cluster.nics_per_host,
        ecn_capable: transport.profile.ecn != Ecn::NotCapable,
    };
    Ok(Fabric {
        latency: quantity::<Nanos>(&["fabric", "latency"], table.latency.as_deref(), "2us")?,
        quantum,
        marking,
        impairments: impairments::resolve(table.impairments.as_deref().unwrap_or_default(), around)?,
        dcqcn: dcqcn::resolve(&table.dcqcn.clone().unwrap_or_default())?,
    })
}

fn marking(table: &EcnTable, transport: &Transport) -> Result<Marking, Wrong> {
    if transport.profile.ecn == Ecn::NotCapable {
        let what =
            "frames that say they can not be marked are never marked, and transport.ecn is 0".to_owned();
        return Err(wrong(&["fabric", "ecn"], what, "ecn = 2 in [transport], or no [fabric.ecn]".to_owned()));
    }
    let kmin = quantity::<Bytes>(&["fabric", "ecn", "kmin"], Some(&table.kmin), "")?;
    let kmax = quantity::<Bytes>(&["fabric", "ecn", "kmax"], table.kmax.as_deref(), &table.kmin)?;
    if kmax < kmin {
        let what = format!("kmax {} is below kmin {}", size_text(kmax), size_text(kmin));
        return Err(wrong(&["fabric", "ecn", "kmax"], what, "at least kmin".to_owned()));
    }
    let pmax =
        table.pmax.as_ref().map(|text| impairments::chance(&["fabric", "ecn", "pmax"], text)).transpose()?;
    Ok(Marking { kmin, kmax, pmax: pmax.unwrap_or(Chance::ALWAYS) })
}

/// The table that means this, every default told.
pub(super) fn written(fabric: &Fabric, cluster: &Cluster) -> FabricTable {
    let impairments = impairments::written(&fabric.impairments, cluster.nics_per_host);
    FabricTable {
        model: Some("ideal".to_owned()),
        latency: Some(duration_text(fabric.latency)),
        quantum: Some(fabric.quantum),
        ecn: fabric.marking.map(|Marking { kmin, kmax, pmax }| EcnTable {
            kmin: size_text(kmin),
            kmax: Some(size_text(kmax)),
            pmax: Some(ChanceText(pmax.to_string())),
        }),
        dcqcn: Some(dcqcn::written(&fabric.dcqcn)),
        impairments: (!impairments.is_empty()).then_some(impairments),
    }
}
