//! `exp data verify`: everything is read again and compared with what it should be.

use serde_json::json;

use crate::{
    base::{Exit, Result, folders::Root},
    cli::run::shown,
    data::shelf::{self, Item},
    ui::{self, format},
};

/// Arguments of `exp data verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let items = shelf::items(&root.cache())?;
    let all: u64 = items.iter().map(|item| item.bytes).sum();
    let mut checked = Vec::new();
    for item in items {
        let mut faults = item.faults()?;
        if item.forget_if_gone()? {
            faults = vec!["it is gone, and forgotten now".into()];
        }
        checked.push((item, faults));
    }
    let bad = checked.iter().filter(|(_, faults)| !faults.is_empty()).count();
    if args.json {
        ui::print_json(&checked.iter().map(|(item, faults)| as_json(item, faults)).collect());
    } else {
        checked.iter().for_each(|(item, faults)| ui::print(&lines(item, faults)));
        ui::note(&match (checked.len(), bad) {
            (0, _) => format!("nothing under {} yet", shown(&root.cache())),
            (1, 0) => format!("it is whole: {}", format::bytes(all)),
            (n, 0) => format!("all {n} are whole: {}", format::bytes(all)),
            (n, bad) => {
                format!(
                    "{bad} of {n} not as they should be; what lies in the cache is made again once its folder is gone"
                )
            }
        });
    }
    Ok(if bad == 0 { Exit::Done } else { Exit::Store })
}

/// What is wrong, a line each; that nothing is in one.
fn lines(item: &Item, faults: &[String]) -> String {
    let place = shown(&item.path);
    let name = item.name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    match faults {
        [] if item.has_hashes() => format!("whole    {place}{name}\n"),
        [] => format!("whole    {place}{name}, by its length alone: an older version of exp kept no hashes\n"),
        faults => faults.iter().map(|fault| format!("damaged  {place}{name}: {fault}\n")).collect(),
    }
}

fn as_json(item: &Item, faults: &[String]) -> serde_json::Value {
    json!({
        "name": item.name,
        "kind": item.kind(),
        "path": item.path.display().to_string(),
        "faults": faults,
        "hashed": item.has_hashes(),
    })
}
