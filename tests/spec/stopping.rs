//! `search`: what it takes, what is refused, what a spec inherits of it.

use std::fs;

use exp::spec::search::{Prune, Search};

use super::{error_with, load_in, shown, sweep};

#[test]
fn what_is_left_out_has_a_default() {
    let search = |text: &str| sweep(text).search;
    let asha = Search { prune: Prune::Asha, metric: "val/loss", min_steps: 100, reduction: 3 };
    assert_eq!(search("search: {prune: asha, min_steps: 100}\n"), Some(asha.clone()));
    let all = "search:\n  prune: asha\n  metric: train/loss\n  min_steps: 1e2\n  reduction: 4\n";
    assert_eq!(search(all), Some(Search { metric: "train/loss", reduction: 4, ..asha.clone() }));
    let median = search("search: {prune: median, metric: val_loss, min_steps: 100}\n").unwrap();
    assert_eq!((median.prune, median.metric), (Prune::Median, "val/loss"));
    assert_eq!((search("lr: 1e-3\n"), search("search: null\n")), (None, None));
    assert_eq!(asha.rungs(2700), [100, 300, 900]);
    assert_eq!(asha.rungs(2701), [100, 300, 900, 2700]);
    assert_eq!(Search { min_steps: 1 << 53, ..asha }.rungs(u64::MAX).len(), 7, "no number overflows");
}

#[test]
fn a_mistake_is_shown_at_its_place() {
    for (text, at, why, hint) in [
        ("search: asha\n", "1:9", "`search` is a map", "`search: {prune: asha, min_steps: 100}`"),
        ("search:\n", "1:1", "not nothing", "`search: {"),
        ("search: {min_steps: 100}\n", "1:1", "`search` lacks `prune`", "`search: {"),
        ("search: {prune: asha}\n", "1:1", "`search` lacks `min_steps`", "`search: {"),
        ("search: {prune: ahsa, min_steps: 9}\n", "1:17", "one of `asha` and `median`, not `ahsa`", "`asha`?"),
        ("search: {prun: asha, min_steps: 9}\n", "1:10", "unknown key `prun` in `search`", "did you mean `prune`?"),
        ("search: {colour: 3}\n", "1:10", "unknown key `colour` in `search`", "`search` has `prune`, `metric`"),
        ("search: {prune: asha, min_steps: 0}\n", "1:34", "an integer of at least 1, not `0`", ""),
        ("search: {prune: asha, min_steps: [1]}\n", "1:34", "not a list", ""),
        ("search: {prune: asha, min_steps: 9, reduction: 1}\n", "1:48", "at least 2, not `1`", ""),
        ("search: {prune: asha, min_steps: 9, metric: acc}\n", "1:45", "`val_loss`", ""),
        ("search: {prune: median, min_steps: 9, reduction: 3}\n", "1:39", "has no rungs", "leave it out"),
        ("steps: 80\nsearch: {prune: asha, min_steps: 80}\n", "2:34", "no run has more than 80 steps", "give less"),
        (
            "steps: 80\neval: {every: 80}\nsearch: {prune: asha, min_steps: 40}\n",
            "3:34",
            "no run could be stopped",
            "eval.every",
        ),
        ("model: {search: 3}\n", "1:9", "unknown key `search`", "top level"),
    ] {
        let shown = shown(&error_with(text, &[]));
        assert!(shown.contains(&format!("a.yaml:{at}\n")), "{text}{at}: {shown}");
        assert!(shown.contains(why) && shown.contains(hint), "{text}{shown}");
    }
    let shown = shown(&error_with("lr: 1e-3\n", &["search.min_steps=50"]));
    assert!(
        shown.contains("`search` is set as a whole") && shown.contains("`--set search=null` takes it away"),
        "{shown}"
    );
}

#[test]
fn it_is_inherited_as_a_whole_and_taken_away_by_null() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("base.yaml", "search: {prune: asha, min_steps: 100, reduction: 2}\n");
    let search = |text: &str| {
        write("child.yaml", &format!("base: base.yaml\n{text}"));
        load_in(folder.path(), "child.yaml", &[]).unwrap().search
    };
    assert_eq!(search("").unwrap().reduction, 2);
    assert_eq!(search("search: {prune: asha, min_steps: 50}\n").unwrap().reduction, 3, "nothing of the base's is left");
    assert_eq!(search("search: null\n"), None);
    let set = |argument: &str| load_in(folder.path(), "base.yaml", &[argument]).unwrap().search;
    assert_eq!(set("search=null"), None);
    let median = set("search={prune: median, min_steps: 100}").unwrap();
    assert_eq!((median.prune, median.min_steps), (Prune::Median, 100));
}
