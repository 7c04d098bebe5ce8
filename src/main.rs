//! tokenwire: from a training plan to RoCEv2 packets on the wire, and back to measurements.
//!
//! Arguments in, exit code out: [`typed`] is what was typed, [`command`] what it means. The work is in the libraries.

mod exit;
mod interrupt;
mod limit;
mod output;
mod selection;
mod speed;
mod typed;
mod command;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let typed = typed::Typed::parse();
    match command::run(typed.command) {
        Ok(exit) => exit.code(),
        Err(failure) => {
            let exit = failure.exit();
            output::remark(&failure.text());
            exit.code()
        }
    }
}
