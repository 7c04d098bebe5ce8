//! What is needed to reproduce a run: `manifest.json` of the run's folder. It holds no secret: no environment
//! variables, no keys, no paths but those that were typed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// How good the clocks are: `T0` (one for all) to `T3` (round trips only).
    pub clock_tier: String,
    /// The most that one host's instant may be off another's.
    pub clock_uncertainty_ns: u64,
    /// Each host that took part.
    pub hosts: Vec<HostManifest>,
}

/// What a run cannot know of itself, given by who started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// The run's name: see [`super::folder::run_name`].
    pub run: String,
    /// The program, with its version.
    pub program: String,
    /// What was typed.
    pub command: Vec<String>,
    /// When the run started, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// Each host that took part.
    pub hosts: Vec<HostManifest>,
}

/// Where one of the plan's hosts was played.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostManifest {
    /// Its name in the plan.
    pub host: String,
    /// The addresses of its NICs in this run, in the order of the NICs.
    pub addresses: Vec<String>,
    /// What its frames were sent and received with.
    pub backend: String,
    /// The operating system's kernel.
    pub kernel: String,
}
