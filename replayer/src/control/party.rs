//! One agent as its coordinator sees it.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint};
use traces::unit::Nanos;

use super::error::ControlError;
use super::protocol;
use super::protocol::agent_client::AgentClient;
use super::spec::{AgentPlace, RunSpec};
use crate::clock;
use crate::dataplane::Standing;
use crate::net::Offload;
use crate::outcome::{HostOutcome, Mode};

/// A connected agent of our version and machine.
#[derive(Clone, Debug)]
pub(super) struct Party {
    pub(super) name: String,
    client: AgentClient<Channel>,
}

/// What an agent says of itself while it runs.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) agent: usize,
    pub(super) what: Said,
}

#[derive(Clone, Debug)]
pub(super) enum Said {
    /// How it stands.
    Standing(Standing),
    /// It can not go on.
    Failure(String),
    /// It says nothing more.
    Gone(String),
}

impl Party {
    /// Connects and compares versions and machines.
    pub(super) async fn meet(agent: &AgentPlace) -> Result<Self, ControlError> {
        let name = agent.place.to_string();
        let unreachable = |source| ControlError::Connect { agent: name.clone(), source };
        let endpoint = Endpoint::from_shared(agent.place.uri())
            .map_err(unreachable)?
            .connect_timeout(CALL)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .keep_alive_while_idle(true);
        let channel = endpoint.connect().await.map_err(unreachable)?;
        let mut party = Self { name: name.clone(), client: AgentClient::new(channel) };
        let hello = protocol::HelloRequest { version: super::VERSION.to_owned() };
        let hello = party
            .client
            .hello(limited(hello))
            .await
            .map_err(|status| party.refused("say who it is", status))?
            .into_inner();
        if hello.version != super::VERSION {
            return Err(ControlError::Version { agent: name, theirs: hello.version, ours: super::VERSION });
        }
        if clock::boot_id().ok() != Some(hello.boot_id) {
            return Err(ControlError::Machine(name));
        }
        Ok(party)
    }

    /// Lets the agent open its trace and sockets; returns its notes.
    pub(super) async fn prepare(
        &mut self,
        agent: &AgentPlace,
        spec: &RunSpec,
        threads: usize,
    ) -> Result<Vec<String>, ControlError> {
        let (mode, speed_per_mille) = match spec.mode {
            Mode::Dependency => (protocol::Mode::Dependency, 1_000),
            Mode::Timed { speed } => (protocol::Mode::Timed, u32::from(speed)),
        };
        let offload = match spec.offload {
            Offload::Auto => protocol::Offload::Auto,
            Offload::Gso => protocol::Offload::Gso,
            Offload::Mmsg => protocol::Offload::Mmsg,
        };
        let request = protocol::PrepareRequest {
            run: spec.run,
            trace: spec.trace.display().to_string(),
            hosts: agent.hosts.iter().map(|host| host.0).collect(),
            addresses: agent
                .addresses
                .iter()
                .map(|entry| protocol::Address { nic: entry.nic.0, address: entry.address.to_string() })
                .collect(),
            udp_port: u32::from(spec.udp_port),
            mode: mode.into(),
            speed_per_mille,
            offload: offload.into(),
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
        };
        let mut request = tonic::Request::new(request);
        request.set_timeout(PREPARE);
        let answer = self.client.prepare(request).await.map_err(|status| self.refused("prepare", status))?;
        Ok(answer.into_inner().notes)
    }

    /// Starts the run; what the agent says goes to `words`.
    pub(super) async fn start(
        &mut self,
        agent: usize,
        at: Nanos,
        words: mpsc::Sender<Word>,
    ) -> Result<(), ControlError> {
        let request = protocol::StartRequest { at_ns: at.0 };
        let answer = self.client.start(request).await.map_err(|status| self.refused("start", status))?;
        let mut stream = answer.into_inner();
        tokio::spawn(async move {
            let gone = loop {
                match tokio::time::timeout(SILENCE, stream.next()).await {
                    Ok(Some(Ok(progress))) => {
                        for what in said(progress) {
                            if words.send(Word { agent, what }).await.is_err() {
                                return;
                            }
                        }
                    }
                    Ok(Some(Err(status))) => break format!("its connection broke: {}", status.message()),
                    Ok(None) => break "it ended its run".to_owned(),
                    Err(_) => break format!("it was silent for {} s", SILENCE.as_secs()),
                }
            };
            let _ = words.send(Word { agent, what: Said::Gone(gone) }).await;
        });
        Ok(())
    }

    /// Ends the agent's run. An agent that does not answer is left to find out by itself.
    pub(super) async fn stop(mut self) {
        let _ = tokio::time::timeout(CALL, self.client.stop(protocol::StopRequest {})).await;
    }

    /// What the agent measured.
    pub(super) async fn collect(mut self) -> Result<Vec<HostOutcome>, String> {
        let read = async {
            let answer = self.client.collect(protocol::CollectRequest {}).await;
            let mut stream = answer.map_err(|status| status.message().to_owned())?.into_inner();
            let mut json = Vec::new();
            while let Some(piece) = stream.next().await {
                json.extend(piece.map_err(|status| status.message().to_owned())?.json);
            }
            serde_json::from_slice(&json)
                .map_err(|error| format!("its outcome is not what it should be: {error}"))
        };
        match tokio::time::timeout(COLLECT, read).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("it gave no outcome within {} ms", COLLECT.as_millis())),
        }
    }

    fn refused(&self, doing: &'static str, status: tonic::Status) -> ControlError {
        ControlError::Refused { agent: self.name.clone(), doing, status: Box::new(status) }
    }
}

fn said(progress: protocol::Progress) -> impl Iterator<Item = Said> {
    let standing = Standing {
        frames_sent: progress.frames_sent,
        frames_received: progress.frames_received,
        bytes_sent: progress.bytes_sent,
        done: progress.done,
        refused: progress.refused,
        finished: progress.finished,
    };
    let failure = (!progress.failure.is_empty()).then_some(Said::Failure(progress.failure));
    std::iter::once(Said::Standing(standing)).chain(failure)
}

fn limited<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(CALL);
    request
}

/// How long a short call may take.
const CALL: Duration = Duration::from_millis(1_500);

/// How long opening a trace and sockets may take.
const PREPARE: Duration = Duration::from_secs(30);

/// An agent speaks every 50 ms; one that has not for this long is lost.
const SILENCE: Duration = Duration::from_secs(2);

/// How long an outcome may take: with [`CALL`] and [`SILENCE`] before it, a run without an agent ends within 5 s.
const COLLECT: Duration = Duration::from_millis(1_400);

const KEEPALIVE: Duration = Duration::from_millis(900);
