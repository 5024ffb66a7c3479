//! Settings laid over a config that is resolved already: for commands that use a run otherwise than it was trained.

use super::{
    RunConfig, check, inherit,
    layer::Setting,
    source::{Fault, Result},
};
use crate::base::Result as BaseResult;

/// `config` with each of `set` (`data.path=FILE`) laid over it, the later ones on top. The leaves `free` alone may be
/// set; `why` says why no other may. A corpus that is named without a path has none.
///
/// # Errors
/// As [`super::load`], with a caret: where a setting cannot be read, is an axis, does not go with the others, or is not
/// free.
pub fn amend(config: &RunConfig, set: &[String], free: &[&str], why: &str) -> BaseResult<RunConfig> {
    let settings = set.iter().map(|argument| one(argument, free, why)).collect::<Result<Vec<_>>>();
    let amended = settings.and_then(|settings| lay(config, &settings));
    amended.map_err(|fault| fault.into_error("reading the command line".into()))
}

/// The one setting of an argument.
fn one(argument: &str, free: &[&str], why: &str) -> Result<Setting> {
    let mut layer = inherit::read_argument(argument)?;
    let not_here = |name: &str| format!("`{name}` cannot be set here: {why}");
    if let Some(axis) = layer.walks().flat_map(|walk| &walk.axes).next() {
        return Err(Fault::at(&axis.place, "one value is wanted here, not an axis").usage());
    }
    match (layer.settings.pop(), layer.experiment) {
        (Some(setting), _) if free.contains(&setting.leaf().path) => Ok(setting),
        (Some(setting), _) => Err(Fault::at(&setting.place, not_here(setting.leaf().path)).usage()),
        (None, experiment) => Err(Fault::new(experiment.map(|(_, place)| place), not_here("experiment")).usage()),
    }
}

fn lay(config: &RunConfig, settings: &[Setting]) -> Result<RunConfig> {
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
    match check::conflict(&config) {
        Some(conflict) => {
            let place = settings.last().map(|setting| setting.place.clone());
            Err(Fault::new(place, conflict.why).maybe_hint(conflict.hint))
        }
        None => Ok(config),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{base::Exit, spec::config::CorpusKind};

    #[test]
    fn settings_are_laid_over_a_config_and_no_others() {
        let mut run = RunConfig::default();
        (run.data.corpus, run.data.path) = (CorpusKind::Text, Some("/a".into()));
        let amend = |set: &[&str]| {
            let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
            super::amend(&run, &set, &["data.corpus", "data.path", "data.val_fraction"], "only the text can be another")
        };
        let path = amend(&["data.path=/b", "val_fraction=0.5"]).unwrap().data;
        assert_eq!((path.path.as_deref(), path.val_fraction), (Some("/b"), 0.5));
        for order in [["corpus=text", "path=/b"], ["path=/b", "corpus=text"]] {
            assert_eq!(amend(&order).unwrap().data.path.as_deref(), Some("/b"));
        }
        assert_eq!(amend(&["corpus=playbook"]).unwrap().data.path, None);
        for (set, exit, says) in [
            (&["lr=1"][..], Exit::Usage, "`train.lr` cannot be set here: only the text can be another"),
            (&["path=[a, b]"], Exit::Usage, "one value is wanted here"),
            (&["seeds=3"], Exit::Usage, "one value is wanted here"),
            (&["experiment=x"], Exit::Usage, "`experiment` cannot be set here"),
            (&["corpus=text"], Exit::Spec, "`data.path` does not say which"),
            (&["corpse=text"], Exit::Spec, "corpus"),
        ] {
            let error = amend(set).unwrap_err();
            assert_eq!(error.exit, exit, "{error}");
            assert!(format!("{error} {:?}", error.hint).contains(says), "{error}");
        }
    }
}
