//! What is needed to reproduce a run: `manifest.json` of the run's folder. It holds no secret: no environment
//! variables, no keys, no paths but those that were typed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::summary::Reasons;

/// The version of the run's `manifest.json`.
pub const RUN_MANIFEST_VERSION: u32 = 1;

/// What stands in the run's `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunManifest {
    /// The version of this document: [`RUN_MANIFEST_VERSION`].
    pub schema_version: u32,
    /// The run's name, which is its folder's.
    pub run: String,
    /// The program, with its version.
    pub program: String,
    /// What was typed.
    pub command: Vec<String>,
    /// The plan's name.
    pub plan: String,
    /// The digest of the plan as meant.
    pub plan_digest: String,
    /// The plan's seed.
    pub seed: u64,
    /// `dependency` or `timed`.
    pub mode: String,
    /// When the run started, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// Whether it ended early.
    pub partial: bool,
    /// Each host that took part.
    pub hosts: Vec<HostManifest>,
    /// Absent keys, and why.
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    pub reason: Reasons,
}

/// Where one of the plan's hosts was played.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostManifest {
    /// Its name in the plan.
    pub host: String,
    /// The addresses of its NICs in this run.
    pub addresses: Vec<String>,
    /// What its frames were sent and received with.
    pub backend: String,
    /// The operating system's kernel.
    pub kernel: String,
    /// How good its clock is: `T0` to `T3`.
    pub clock_tier: String,
}
