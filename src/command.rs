//! What the arguments mean: one module a command.

mod explain;
mod generate;
mod verify;
mod agent;
mod replay;
mod demo;

use clap::CommandFactory;

use generator::plan::Plan;

use crate::exit::{Exit, Failure};
use crate::output;
use crate::typed::{Command, Document, Typed};

/// Carries a command out.
pub(crate) fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Explain(typed) => explain::run(&typed),
        Command::Generate(typed) => generate::run(&typed),
        Command::Verify(typed) => verify::run(&typed),
        Command::Replay(typed) => replay::run(&typed),
        Command::Demo(typed) => demo::run(&typed),
        Command::Agent(typed) => agent::run(&typed),
        Command::Schema { document } => schema(document),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Typed::command(), "tokenwire", &mut script);
            output::result(&String::from_utf8_lossy(&script))?;
            Ok(Exit::Done)
        }
        Command::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Typed::command()).render(&mut page).map_err(Failure::wrong)?;
            output::result(&String::from_utf8_lossy(&page))?;
            Ok(Exit::Done)
        }
    }
}

/// The plan in a file, or the shipped one of that name.
fn load(name: &str) -> Result<Plan, Failure> {
    generator::plan::load::load(name).map_err(Failure::in_source)
}

fn schema(document: Document) -> Result<Exit, Failure> {
    let schema = match document {
        Document::Plan => Plan::schema(),
        Document::Manifest => schemars::schema_for!(traces::manifest::Manifest),
        Document::Verify => verify::schema(),
        Document::Explain => generator::explain::schema(),
        Document::Summary => replayer::report::summary::summary_schema(),
    };
    let json = serde_json::to_string_pretty(&schema).map_err(Failure::wrong)?;
    output::result(&format!("{json}\n"))?;
    Ok(Exit::Done)
}
