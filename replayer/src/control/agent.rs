//! The agent: waits for a coordinator, plays its hosts, answers, and ends when it is told to.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::transport::Server;

use super::error::ControlError;
use super::place::Place;
use super::protocol::agent_server::AgentServer;
use super::session::Session;

/// How an agent serves.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Where it listens.
    pub place: Place,
    /// Whether it ends when its standard input is closed: whoever started it holds the other end, and whatever ends
    /// that process, however suddenly, closes it.
    pub with_parent: bool,
    /// Ends the agent when it becomes true.
    pub stop: Arc<AtomicBool>,
}

impl AgentOptions {
    /// An agent that serves at `place` until it is told to end.
    #[must_use]
    pub fn at(place: Place) -> Self {
        Self { place, with_parent: false, stop: Arc::default() }
    }
}

/// Serves until a coordinator, the parent or a signal ends the agent.
///
/// # Errors
/// [`ControlError`] when it can not listen, or would be open to the network.
pub fn serve(options: &AgentOptions) -> Result<(), ControlError> {
    if let Place::Tcp(address) = options.place {
        check_closed(address)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(ControlError::Runtime)?;
    let answer = runtime.block_on(serve_until_end(options));
    // A thread may still wait for the end of standard input; the process need not.
    runtime.shutdown_background();
    answer
}

async fn serve_until_end(options: &AgentOptions) -> Result<(), ControlError> {
    let (end, ended) = mpsc::channel(1);
    let session = Session::new(end.clone());
    if options.with_parent {
        watch_parent(end);
    }
    let until = wait_for_end(ended, Arc::clone(&options.stop), session.clone());
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_service(AgentServer::new(session));
    match &options.place {
        Place::Tcp(address) => {
            let listener =
                TcpListener::bind(address).await.map_err(|e| ControlError::Listen(address.to_string(), e))?;
            let incoming = TcpListenerStream::new(listener);
            server.serve_with_incoming_shutdown(incoming, until).await.map_err(ControlError::Serve)
        }
        Place::Socket(path) => {
            let (listener, _file) = listen(path)?;
            let incoming = UnixListenerStream::new(listener);
            server.serve_with_incoming_shutdown(incoming, until).await.map_err(ControlError::Serve)
        }
    }
}

/// Ends when a coordinator, the parent, the embedder or a signal says so, and stops what is running.
async fn wait_for_end(mut ended: mpsc::Receiver<()>, stop: Arc<AtomicBool>, session: Session) {
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
            _ = ended.recv() => break,
            _ = terminated => break,
            _ = tokio::signal::ctrl_c() => break,
            _ = tick.tick() => if stop.load(Ordering::Relaxed) { break },
        }
    }
    session.stop();
    // The answer to whoever said so is on its way; open streams must not keep the server.
    tokio::time::sleep(TICK).await;
}

/// Ends the agent when standard input does. A thread of its own: nothing else can be slow enough to delay it.
fn watch_parent(end: mpsc::Sender<()>) {
    std::thread::spawn(move || {
        let mut rest = [0; 64];
        let mut input = io::stdin().lock();
        while matches!(input.read(&mut rest), Ok(1..)) {}
        let _ = end.blocking_send(());
    });
}

fn check_closed(address: SocketAddr) -> Result<(), ControlError> {
    if address.ip().is_loopback() { Ok(()) } else { Err(ControlError::Open(address)) }
}

/// A listener at `path`, and what removes the path again.
fn listen(path: &Path) -> Result<(UnixListener, Remove), ControlError> {
    let listener =
        UnixListener::bind(path).map_err(|error| ControlError::Listen(path.display().to_string(), error))?;
    Ok((listener, Remove(path.to_owned())))
}

/// Removes a file when it is dropped.
struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// How often the embedder's wish is looked at.
const TICK: Duration = Duration::from_millis(50);

/// After this time without a sign a connection is asked for one, and after as long again it is dead.
const KEEPALIVE: Duration = Duration::from_millis(900);
