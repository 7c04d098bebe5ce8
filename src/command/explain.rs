//! `tokenwire explain`: the life of a token in numbers.

use generator::explain::{explain, render};
use generator::plan::Words;
use generator::plan::load::read_text;

use crate::command::load;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::typed;

pub(crate) fn run(typed: &typed::Explain) -> Result<Exit, Failure> {
    let plan = load(&typed.plan)?;
    let words = match (&typed.text, typed.tokens) {
        (Some(path), _) => {
            let name = path.display().to_string();
            let text = read_text(path).map_err(Failure::wrong)?;
            Words::Text { name, text }
        }
        (None, Some(tokens)) => Words::Tokens(tokens),
        (None, None) => plan.training.words.clone(),
    };
    let explanation = explain(&plan, &words).map_err(Failure::in_source)?;
    let text = if typed.json {
        format!("{}\n", serde_json::to_string_pretty(&explanation).map_err(Failure::wrong)?)
    } else {
        render(&explanation)
    };
    output::result(&text)?;
    Ok(Exit::Done)
}
