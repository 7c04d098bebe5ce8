//! Ctrl-C: the first asks the work to end in order, the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

/// Whether the user has asked for the end.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Listens for SIGINT and SIGTERM from now on, in a thread of its own. Without it they end the program at once.
pub(crate) fn listen() {
    let listener = || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
        runtime.block_on(async {
            let (Ok(mut interrupt), Ok(mut terminate)) =
                (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
            else {
                return;
            };
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if ASKED.swap(true, Ordering::Relaxed) {
                    std::process::exit(4);
                }
            }
        });
    };
    // Without the thread, signals keep their usual meaning.
    let _ = thread::Builder::new().name("signals".to_owned()).spawn(listener);
}

/// Whether the end was asked for.
pub(crate) fn asked() -> bool {
    flag().load(Ordering::Relaxed)
}

/// The same, for those who look at it themselves.
pub(crate) fn flag() -> &'static AtomicBool {
    &ASKED
}
