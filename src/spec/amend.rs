//! Settings laid over a config that is resolved already: for commands that use a run otherwise than it was trained.

use super::{
    RunConfig, check,
    inherit::{key_place, read_argument},
    layer::Setting,
    source::{Fault, Result},
};
use crate::base::Result as BaseResult;

/// `config` with each of `set` (`data.path=FILE`) laid over it, the later ones on top. Of each leaf that is set `refuse`
/// may say, given the amended config and the leaf's path, why it cannot be. A corpus that is named without a path has
/// none.
///
/// # Errors
/// As [`super::load`], with a caret: where a setting cannot be read, is an axis, is refused, or does not go with the
/// others.
pub fn amend(
    config: &RunConfig,
    set: &[String],
    refuse: &dyn Fn(&RunConfig, &str) -> Option<String>,
) -> BaseResult<RunConfig> {
    if set.is_empty() {
        return Ok(config.clone()); // which may be older than some of the checks
    }
    let settings = set.iter().map(|argument| one(argument)).collect::<Result<Vec<_>>>();
    let checked = settings.and_then(|settings| {
        let amended = lay(config, &settings);
        for (setting, argument) in settings.iter().zip(set) {
            if let Some(why) = refuse(&amended, setting.leaf().path) {
                return Err(Fault::at(&key_place(argument), why).usage());
            }
        }
        match check::conflict(&amended) {
            Some(conflict) => {
                let place = settings.last().map(|setting| setting.place.clone());
                Err(Fault::new(place, conflict.why).maybe_hint(conflict.hint))
            }
            None => Ok(amended),
        }
    });
    checked.map_err(|fault| fault.into_error("reading the command line".into()))
}

/// The one setting of an argument.
fn one(argument: &str) -> Result<Setting> {
    let mut layer = read_argument(argument)?;
    if let Some(axis) = layer.walks().flat_map(|walk| &walk.axes).next() {
        return Err(Fault::at(&axis.place, "one value is wanted here, not an axis").usage());
    }
    layer.settings.pop().ok_or_else(|| Fault::at(&key_place(argument), "only a leaf can be set here").usage())
}

fn lay(config: &RunConfig, settings: &[Setting]) -> RunConfig {
    let mut config = config.clone();
    let sets = |path| settings.iter().any(|setting| setting.leaf().path == path);
    if sets("data.corpus") && !sets("data.path") {
        config.data.path = None;
    }
    for setting in settings {
        let leaf = setting.leaf();
        let default = leaf.default_in(&config, &RunConfig::default());
        leaf.set(&mut config, if setting.value.is_null() { &default } else { &setting.value });
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{base::Exit, spec::config::CorpusKind};

    #[test]
    fn settings_are_laid_over_a_config_and_no_others() {
        let mut run = RunConfig::default();
        (run.data.corpus, run.data.path) = (CorpusKind::Text, Some("/a".into()));
        let refuse = |amended: &RunConfig, leaf: &str| match leaf {
            "data.corpus_seed" => (amended.data.corpus != CorpusKind::Playbook).then(|| "no effect".into()),
            _ => (!leaf.starts_with("data.")).then(|| format!("`{leaf}` cannot be set here")),
        };
        let amend = |set: &[&str]| {
            let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
            super::amend(&run, &set, &refuse)
        };
        let path = amend(&["data.path=/b", "val_fraction=0.5"]).unwrap().data;
        assert_eq!((path.path.as_deref(), path.val_fraction), (Some("/b"), 0.5));
        for order in [["corpus=text", "path=/b"], ["path=/b", "corpus=text"]] {
            assert_eq!(amend(&order).unwrap().data.path.as_deref(), Some("/b"));
        }
        assert_eq!(amend(&["corpus=playbook"]).unwrap().data.path, None);
        assert_eq!(amend(&["corpus_seed=2", "corpus=playbook"]).unwrap().data.corpus_seed, 2);
        for (set, exit, says) in [
            (&["lr=1"][..], Exit::Usage, "`train.lr` cannot be set here"),
            (&["corpus_seed=2"], Exit::Usage, "no effect"),
            (&["path=[a, b]"], Exit::Usage, "one value is wanted here"),
            (&["seeds=3"], Exit::Usage, "one value is wanted here"),
            (&["experiment=x"], Exit::Usage, "only a leaf can be set here"),
            (&["corpus=text"], Exit::Spec, "`data.path` does not say which"),
            (&["corpse=text"], Exit::Spec, "corpus"),
        ] {
            let error = amend(set).unwrap_err();
            assert_eq!(error.exit, exit, "{error}");
            assert!(format!("{error} {:?}", error.hint).contains(says), "{error}");
        }
    }

    #[test]
    fn the_caret_stands_under_the_key_that_is_refused() {
        let set = ["d_model=8".to_owned(), " lr =3".into()];
        let refuse = |_: &RunConfig, leaf: &str| (leaf == "train.lr").then(|| "not here".to_owned());
        let error = amend(&RunConfig::default(), &set, &refuse).unwrap_err().to_string();
        let [line, carets] = [2, 1].map(|n| error.lines().rev().nth(n - 1).unwrap());
        let [at, to] = [line.find(" lr ").unwrap(), line.find('=').unwrap()];
        assert_eq!(carets.find('^').zip(carets.rfind('^')), Some((at, to - 1)), "{error}");
    }
}
