//! `tokenwire agent`: waits for a coordinator and plays hosts of a trace.

use std::fs;

use replayer::control::{AgentOptions, Place, serve};

use crate::exit::{Exit, Failure};
use crate::typed;

pub(crate) fn run(typed: &typed::Agent) -> Result<Exit, Failure> {
    let place = match (&typed.socket, typed.listen) {
        (Some(path), _) => Place::Socket(path.clone()),
        (None, Some(address)) => Place::Tcp(address),
        (None, None) => return Err(Failure::wrong("give --listen ADDRESS:PORT or --socket PATH")),
    };
    let options = AgentOptions { with_parent: typed.with_parent, ..AgentOptions::at(place) };
    let served = serve(&options).map_err(Failure::wrong);
    if let Some(path) = typed.socket.as_ref().filter(|_| typed.with_parent) {
        // A parent that was killed leaves its folder of sockets behind; the last agent takes it away.
        let _ = fs::remove_file(path);
        let _ = path.parent().map(fs::remove_dir);
    }
    served?;
    Ok(Exit::Done)
}
