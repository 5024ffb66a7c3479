//! `exp attention RUN`: where a run's heads look in a prompt, as a table and a picture.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{needed_store, prompt::Given, run::shown};
use crate::{
    base::{Error, Exit, Result, RunId, files, folders::Root, num},
    report::attention::{
        self, Choice, Maps, Token,
        patterns::{Head, Pattern, Survey, survey},
    },
    train::{
        Which,
        attention::{Attention, Prompt, attention as computed},
    },
    ui::{
        self, format,
        table::{self, numbers, words},
    },
};

/// Arguments of `exp attention`.
#[derive(Debug, clap::Args)]
#[command(mut_group("given", |group| group.required(true)))]
pub struct Args {
    /// The run: any unique prefix of its id
    run: String,

    #[command(flatten)]
    given: Given,

    /// Draw the heads of this layer alone; layers and heads count from 0
    #[arg(long, value_name = "L")]
    layer: Option<usize>,

    /// Draw this head alone: of the layer, or of every one
    #[arg(long, value_name = "H")]
    head: Option<usize>,

    /// Which weights: best, last, or the number of a step
    #[arg(long, value_name = "best|last|N", default_value = "best")]
    checkpoint: Which,

    /// Where the picture goes [default: a file in reports/attention]
    #[arg(long, value_name = "FILE.png", value_parser = png)]
    out: Option<PathBuf>,

    /// Print the table as JSON, with the weights of the heads that --layer and --head choose
    #[arg(long)]
    json: bool,
}

/// A picture is a PNG, and a file of another ending would be taken for something else.
fn png(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    let is_png = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("png"));
    is_png.then_some(path).ok_or_else(|| "a picture is a PNG: name a file that ends in .png".into())
}

impl Args {
    /// Which heads are drawn, of a model that has so many.
    fn choice(&self, run: &RunId, layers: usize, heads: usize) -> Result<Choice> {
        for (name, asked, has) in [("layer", self.layer, layers), ("head", self.head, heads)] {
            if let Some(asked) = asked.filter(|&asked| asked >= has) {
                let doing = format!("looking for {name} {asked} of run {}", run.short());
                return Err(Error::new(Exit::Usage, doing, format!("it has {}", format::plural(has, name)))
                    .hint(format!("{name}s count from 0: the last one is {}", has - 1)));
            }
        }
        Ok(Choice { layer: self.layer, head: self.head })
    }
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let row = needed_store(root)?.find(&args.run)?;
    let choice = args.choice(&row.id, row.config.model.layers, row.config.model.heads)?;
    let prompt = args.given.read()?.unwrap_or(Prompt::Ids(Vec::new())); // one is required
    let maps = maps(&row.id, computed(root, &root.run(&row.id), args.checkpoint, &prompt)?);
    let survey = survey(&maps);
    let picture = args.out.clone().unwrap_or_else(|| root.attention().join(name(&maps, choice)));
    files::write_atomic(&picture, &attention::png(&maps, choice)?)?;
    if args.json {
        ui::print_json(&json(&row.id, &maps, &survey, choice, &root.relative(&picture)));
    } else {
        ui::print(&table(&maps, &survey));
    }
    ui::note(&format!("picture: {}", shown(&picture)));
    Ok(Exit::Done)
}

/// The plain numbers that reports know.
fn maps(run: &RunId, computed: Attention) -> Maps {
    let Attention { step, tokens, texts, layers, heads, weights } = computed;
    let tokens = tokens.into_iter().zip(texts).map(|(id, text)| Token { id, text }).collect();
    Maps { run: run.short(), step, tokens, layers, heads, weights }
}

/// A picture's name, which another prompt or another choice does not share: `3f2a91ab-step-60-layer-0-head-1-5d41c0.png`.
fn name(maps: &Maps, choice: Choice) -> String {
    let ids: Vec<u8> = maps.tokens.iter().flat_map(|token| token.id.to_le_bytes()).collect();
    let part = |name: &str, of: Option<usize>| of.map_or(String::new(), |n| format!("-{name}-{n}"));
    let prompt = &blake3::hash(&ids).to_hex()[..6];
    format!("{}-step-{}{}{}-{prompt}.png", maps.run, maps.step, part("layer", choice.layer), part("head", choice.head))
}

fn table(maps: &Maps, survey: &Survey) -> String {
    let mut columns = vec![numbers("L"), numbers("H"), words("looks at")];
    columns.extend(Pattern::ALL.map(|pattern| numbers(pattern.short())));
    columns.push(numbers("bits"));
    let share = |x: Option<f64>| x.map_or("–".into(), |x| num::word(x).map_or(format!("{x:.2}"), Into::into));
    let row = |head: &Head| {
        let looks_at = head.pattern.map_or("–".into(), |pattern| pattern.short().to_owned());
        let first = [head.layer.to_string(), head.head.to_string(), looks_at];
        first.into_iter().chain(head.mass.map(share)).chain([share(head.entropy)]).collect()
    };
    let mut rows: Vec<Vec<String>> = survey.heads.iter().map(row).collect();
    let chance = survey.chance.map(|chance| share(chance.map(|(_, chance)| chance)));
    let first = ["–".to_owned(), "–".into(), "all alike".into()];
    rows.push(first.into_iter().chain(chance).chain([share(survey.uniform_entropy)]).collect());
    let head = format!(
        "run {} after step {}, {}\nmean attention of head H in layer L, and its entropy in bits\n\n",
        maps.run,
        maps.step,
        format::plural(maps.tokens.len(), "token")
    );
    head + &table::render(&columns, &rows)
}

fn json(run: &RunId, maps: &Maps, survey: &Survey, choice: Choice, picture: &str) -> Value {
    let number = |x: Option<f64>| x.map(num::json);
    let patterns: Map<String, Value> = Pattern::ALL
        .iter()
        .zip(survey.chance)
        .map(|(pattern, chance)| {
            let (queries, chance) = chance.unzip();
            (pattern.name().to_owned(), json!({"queries": queries.unwrap_or(0), "chance": chance}))
        })
        .collect();
    let head = |head: &Head| {
        let mut object = Map::new();
        object.insert("layer".into(), head.layer.into());
        object.insert("head".into(), head.head.into());
        object.insert("pattern".into(), head.pattern.map(Pattern::name).into());
        for (pattern, mass) in Pattern::ALL.iter().zip(head.mass) {
            object.insert(pattern.name().into(), number(mass).into());
        }
        object.insert("entropy".into(), number(head.entropy).into());
        if choice.is_narrow() && choice.has(head.layer, head.head) {
            let row = |row: &[f32]| row.iter().map(|&w| num::json(w.into())).collect::<Value>();
            let weights = maps.head(head.layer, head.head).chunks_exact(maps.tokens.len()).map(row);
            object.insert("weights".into(), weights.collect());
        }
        Value::Object(object)
    };
    json!({
        "run": run,
        "step": maps.step,
        "layers": maps.layers,
        "heads": maps.heads,
        "tokens": maps.tokens.iter().map(|token| json!({"id": token.id, "text": token.text})).collect::<Vec<_>>(),
        "picture": picture,
        "patterns": patterns,
        "uniform_entropy": number(survey.uniform_entropy),
        "table": survey.heads.iter().map(head).collect::<Vec<_>>(),
    })
}
