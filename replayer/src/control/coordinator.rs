//! The coordinator: one run of one trace by several agents, to its end or to a partial one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use traces::unit::Nanos;

use super::error::ControlError;
use super::party::{Party, Said, Word};
use super::spec::{AgentPlace, RunSpec};
use crate::clock::{self, Clock};
use crate::dataplane::Standing;
use crate::outcome::HostOutcome;

/// What a run left.
#[derive(Clone, Debug)]
pub struct Run {
    /// When it started, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// What the agents measured that could be asked.
    pub hosts: Vec<HostOutcome>,
    /// Why something is missing; empty when nothing is.
    pub reasons: Vec<String>,
    /// Whether a signal or the caller ended it.
    pub interrupted: bool,
    /// What should be known: fallbacks that agents took.
    pub notes: Vec<String>,
}

impl Run {
    /// Whether something is missing.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.reasons.is_empty()
    }
}

/// Plays a trace: meets all agents, lets them prepare, starts them at one instant, watches, stops, collects.
///
/// `progress` is called with the sum over all agents whenever one has spoken. `stop` ends the run early, as SIGINT and
/// SIGTERM do; what was measured until then is collected. Blocks the calling thread, which must not be one of an
/// asynchronous runtime.
///
/// # Errors
/// [`ControlError`] when the run did not start. Once it has, whatever happens leaves a [`Run`], perhaps a partial one.
pub fn run(
    agents: &[AgentPlace],
    spec: &RunSpec,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Standing),
) -> Result<Run, ControlError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ControlError::Runtime)?;
    let answer = runtime.block_on(lead(agents, spec, stop, progress));
    runtime.shutdown_background();
    answer
}

async fn lead(
    agents: &[AgentPlace],
    spec: &RunSpec,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Standing),
) -> Result<Run, ControlError> {
    let mut parties = Vec::new();
    let mut notes = Vec::new();
    for agent in agents {
        parties.push(Party::meet(agent).await?);
    }
    let threads = agents.iter().map(|agent| agent.hosts.len()).sum();
    for (party, agent) in parties.iter_mut().zip(agents) {
        notes.extend(party.prepare(agent, spec, threads).await?);
    }
    notes.sort();
    notes.dedup();
    let at = Nanos(Clock::MONOTONIC.now().0 + LEAD.0);
    let started_unix_ns = clock::wall().0 + LEAD.0;
    let (words, mut heard) = mpsc::channel(WORDS_AHEAD);
    for (number, party) in parties.iter_mut().enumerate() {
        party.start(number, at, words.clone()).await?;
    }
    drop(words);
    let mut watch = Watch::new(agents);
    watch.until_over(&mut heard, stop, progress).await;
    let alive: Vec<_> =
        parties.into_iter().zip(&watch.gone).filter(|(_, gone)| !**gone).map(|(party, _)| party).collect();
    let stops: Vec<_> = alive.iter().cloned().map(|party| tokio::spawn(party.stop())).collect();
    for stop in stops {
        let _ = stop.await;
    }
    let collects: Vec<_> =
        alive.into_iter().map(|party| (party.name.clone(), tokio::spawn(party.collect()))).collect();
    let mut hosts = Vec::new();
    for (name, collect) in collects {
        match collect.await {
            Ok(Ok(outcomes)) => hosts.extend(outcomes),
            Ok(Err(why)) => watch.reasons.push(format!("agent {name}: {why}")),
            Err(error) => watch.reasons.push(format!("agent {name}: {error}")),
        }
    }
    hosts.sort_by_key(|outcome| outcome.host);
    let refused = watch.standings.iter().copied().sum::<Standing>().refused;
    if refused > 0 {
        notes.push(format!(
            "{refused} frames could not be sent: the system's queues were full, or they are none"
        ));
    }
    Ok(Run { started_unix_ns, hosts, reasons: watch.reasons, interrupted: watch.interrupted, notes })
}

/// What is known of the agents while they run.
struct Watch<'a> {
    agents: &'a [AgentPlace],
    standings: Vec<Standing>,
    gone: Vec<bool>,
    reasons: Vec<String>,
    interrupted: bool,
}

impl<'a> Watch<'a> {
    fn new(agents: &'a [AgentPlace]) -> Self {
        Self {
            agents,
            standings: vec![Standing::default(); agents.len()],
            gone: vec![false; agents.len()],
            reasons: Vec::new(),
            interrupted: false,
        }
    }

    /// Ends when all agents have finished, one can not go on or is gone, or someone ends the run.
    async fn until_over(
        &mut self,
        heard: &mut mpsc::Receiver<Word>,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Standing),
    ) {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok();
        let mut tick = tokio::time::interval(TICK);
        loop {
            let terminated = async {
                match &mut terminate {
                    Some(signal) => signal.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                word = heard.recv() => {
                    let Some(word) = word else { return };
                    if self.hear(word, progress) {
                        return;
                    }
                }
                _ = tokio::signal::ctrl_c() => return self.interrupt("it was interrupted"),
                _ = terminated => return self.interrupt("it was terminated"),
                _ = tick.tick() => if stop.load(Ordering::Relaxed) {
                    return self.interrupt("it was stopped");
                },
            }
        }
    }

    /// Takes one word; says whether the run is over.
    fn hear(&mut self, word: Word, progress: &mut dyn FnMut(Standing)) -> bool {
        let name = &self.agents[word.agent].place;
        match word.what {
            Said::Standing(standing) => {
                self.standings[word.agent] = standing;
                progress(self.standings.iter().copied().sum());
                self.standings.iter().all(|standing| standing.finished)
            }
            Said::Failure(why) => {
                self.reasons.push(format!("agent {name}: {why}"));
                true
            }
            Said::Gone(why) => {
                self.gone[word.agent] = true;
                self.reasons.push(format!("agent {name} is gone: {why}"));
                true
            }
        }
    }

    fn interrupt(&mut self, why: &str) {
        self.interrupted = true;
        self.reasons.push(why.to_owned());
    }
}

/// From the order to start to the start: enough for the order to reach all agents.
const LEAD: Nanos = Nanos(100_000_000);

/// How often the caller's wish is looked at.
const TICK: Duration = Duration::from_millis(50);

const WORDS_AHEAD: usize = 64;
