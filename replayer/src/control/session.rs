//! What an agent is doing: one run at a time, from preparation to its outcome.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{self, MissedTickBehavior};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use traces::id::{HostId, NicId};
use traces::unit::Nanos;

use super::error::chain;
use super::protocol::{self, agent_server};
use crate::clock;
use crate::dataplane::{Assignment, NicAddress, Prepared, Running};
use crate::net::Offload;
use crate::outcome::{HostOutcome, Mode, Speed};

/// The agent's side of the protocol.
#[derive(Clone, Debug)]
pub(super) struct Session {
    state: Arc<Mutex<State>>,
    end: mpsc::Sender<()>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Prepared(Prepared),
    Running(Arc<Running>),
}

impl Session {
    /// A session that says on `end` when the agent should end.
    pub(super) fn new(end: mpsc::Sender<()>) -> Self {
        Self { state: Arc::default(), end }
    }

    /// Stops what runs; for the end of the agent.
    pub(super) fn stop(&self) {
        if let State::Running(running) = &*self.state() {
            running.stop();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> Result<Arc<Running>, Status> {
        match &*self.state() {
            State::Running(running) => Ok(Arc::clone(running)),
            State::Idle | State::Prepared(_) => Err(Status::failed_precondition("nothing is running")),
        }
    }
}

#[tonic::async_trait]
impl agent_server::Agent for Session {
    type StartStream = ReceiverStream<Result<protocol::Progress, Status>>;
    type CollectStream = ReceiverStream<Result<protocol::Piece, Status>>;

    async fn hello(
        &self,
        _request: Request<protocol::HelloRequest>,
    ) -> Result<Response<protocol::HelloReply>, Status> {
        let boot_id = clock::boot_id().map_err(|error| Status::internal(chain(&error)))?;
        let version = super::VERSION.to_owned();
        Ok(Response::new(protocol::HelloReply { version, boot_id, process: std::process::id() }))
    }

    async fn prepare(
        &self,
        request: Request<protocol::PrepareRequest>,
    ) -> Result<Response<protocol::PrepareReply>, Status> {
        let assignment = assignment(request.into_inner())?;
        if let State::Running(running) = &*self.state()
            && !running.is_over()
        {
            return Err(Status::failed_precondition("a run is under way; one agent plays one at a time"));
        }
        // What an earlier coordinator left behind holds the ports.
        *self.state() = State::Idle;
        let prepared = tokio::task::spawn_blocking(move || Prepared::new(&assignment))
            .await
            .map_err(|error| Status::internal(chain(&error)))?
            .map_err(|error| Status::failed_precondition(chain(&error)))?;
        let notes = prepared.notes().to_vec();
        *self.state() = State::Prepared(prepared);
        Ok(Response::new(protocol::PrepareReply { notes }))
    }

    async fn start(
        &self,
        request: Request<protocol::StartRequest>,
    ) -> Result<Response<Self::StartStream>, Status> {
        let at = Nanos(request.into_inner().at_ns);
        let running = {
            let mut state = self.state();
            let State::Prepared(prepared) = std::mem::take(&mut *state) else {
                return Err(Status::failed_precondition("nothing is prepared"));
            };
            let running = prepared.start(at).map_err(|error| Status::internal(chain(&error)))?;
            let running = Arc::new(running);
            *state = State::Running(Arc::clone(&running));
            running
        };
        let (sender, receiver) = mpsc::channel(PROGRESS_AHEAD);
        tokio::spawn(report(running, sender));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn stop(
        &self,
        _request: Request<protocol::StopRequest>,
    ) -> Result<Response<protocol::StopReply>, Status> {
        if let Ok(running) = self.running() {
            running.stop();
        }
        Ok(Response::new(protocol::StopReply {}))
    }

    async fn collect(
        &self,
        _request: Request<protocol::CollectRequest>,
    ) -> Result<Response<Self::CollectStream>, Status> {
        let running = self.running()?;
        running.stop();
        let outcomes: Vec<HostOutcome> = tokio::task::spawn_blocking(move || running.outcomes())
            .await
            .map_err(|error| Status::internal(chain(&error)))?;
        *self.state() = State::Idle;
        let json = serde_json::to_vec(&outcomes).map_err(|error| Status::internal(chain(&error)))?;
        let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
        tokio::spawn(async move {
            for piece in json.chunks(PIECE_BYTES) {
                if sender.send(Ok(protocol::Piece { json: piece.to_vec() })).await.is_err() {
                    break;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn shutdown(
        &self,
        _request: Request<protocol::ShutdownRequest>,
    ) -> Result<Response<protocol::ShutdownReply>, Status> {
        // A full channel has been told already.
        let _ = self.end.try_send(());
        Ok(Response::new(protocol::ShutdownReply {}))
    }
}

/// Tells the coordinator how the run stands; stops the run when the coordinator is gone, or has heard enough.
///
/// A part that is over is told again and again: the coordinator waits for the slowest, and a stream that ends before
/// it has let go of it means that the agent is gone.
async fn report(running: Arc<Running>, to: mpsc::Sender<Result<protocol::Progress, Status>>) {
    let mut tick = time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = to.closed() => {
                running.stop();
                return;
            }
        }
        let over = running.is_over();
        let standing = running.standing();
        let progress = protocol::Progress {
            frames_sent: standing.frames_sent,
            frames_received: standing.frames_received,
            bytes_sent: standing.bytes_sent,
            done: standing.done,
            refused: standing.refused,
            finished: standing.finished || over,
            failure: running.failure().unwrap_or_default(),
        };
        // A full channel has older standings, which do as well.
        if let Err(mpsc::error::TrySendError::Closed(_)) = to.try_send(Ok(progress)) {
            running.stop();
            return;
        }
    }
}

fn assignment(request: protocol::PrepareRequest) -> Result<Assignment, Status> {
    let wrong = |what: String| Status::invalid_argument(what);
    let offload = match request.offload() {
        protocol::Offload::Auto => Offload::Auto,
        protocol::Offload::Gso => Offload::Gso,
        protocol::Offload::Mmsg => Offload::Mmsg,
    };
    let mode = match request.mode() {
        protocol::Mode::Dependency => Mode::Dependency,
        protocol::Mode::Timed => Mode::Timed {
            speed: Speed::per_mille(request.speed_per_mille)
                .ok_or_else(|| wrong("a speed of zero never ends".to_owned()))?,
        },
        protocol::Mode::Unspecified => return Err(wrong("no mode is given".to_owned())),
    };
    let udp_port =
        u16::try_from(request.udp_port).map_err(|_| wrong(format!("{} is no UDP port", request.udp_port)))?;
    let addresses = request
        .addresses
        .iter()
        .map(|entry| match entry.address.parse::<IpAddr>() {
            Ok(address) => Ok(NicAddress { nic: NicId(entry.nic), address }),
            Err(_) => Err(wrong(format!("`{}` is no IP address", entry.address))),
        })
        .collect::<Result<_, _>>()?;
    Ok(Assignment {
        run: request.run,
        trace: PathBuf::from(request.trace),
        hosts: request.hosts.into_iter().map(HostId).collect(),
        addresses,
        udp_port,
        mode,
        offload,
        threads: usize::try_from(request.threads).unwrap_or(usize::MAX),
    })
}

/// How often an agent says how it stands.
const TICK: Duration = Duration::from_millis(50);

/// Standings that wait for a slow coordinator; what is beyond is left out.
const PROGRESS_AHEAD: usize = 8;

const PIECES_AHEAD: usize = 2;

/// An outcome travels in pieces: gRPC takes messages of 4 MiB.
const PIECE_BYTES: usize = 1 << 20;
