//! Verdicts on runs by what is known of all; what a queue makes of them is told in its own tests.

use super::*;

fn search(prune: Prune, min_steps: u64, reduction: u64) -> Search {
    Search { prune, metric: "val/loss", min_steps, reduction }
}

#[test]
fn the_median_is_of_what_others_had_on_average_by_then() {
    let mut pruner = Pruner::new(search(Prune::Median, 20, 3), [90; 4]);
    // What is measured before the first update does not count.
    pruner.learn(0, &[(0, 100.0), (10, 4.0), (20, 2.0), (30, 1.0)]); // 3 by step 20
    pruner.learn(1, &[(0, 100.0), (10, 5.0), (20, 5.0)]); // 5 by step 20
    pruner.learn(2, &[(0, 100.0), (10, 4.1), (20, 4.2)]);
    let verdicts = pruner.verdicts();
    let behind = Reason::Median { best: 4.1, median: 4.0, others: 2, step: 20 };
    assert_eq!(verdicts[2], Verdict::Pauses(behind.clone()));
    assert_eq!(behind.to_string(), "4.1000 by step 20: worse than 4.0000, the median of 2 others");
    assert_eq!((&verdicts[0], &verdicts[3]), (&Verdict::GoesOn, &Verdict::GoesOn), "none, and nothing to judge");
    pruner.set_fate(0, Fate::Out);
    assert_eq!(pruner.verdicts()[2], Verdict::GoesOn, "what failed is worse than any number");
    pruner.set_fate(0, Fate::Done);
    pruner.learn(1, &[(10, 5.0)]);
    assert_eq!(pruner.verdicts()[2], Verdict::GoesOn, "one other that has come as far is not enough");
}

#[test]
fn a_run_counts_at_a_rung_by_what_it_was_there_between_its_evaluations() {
    let mut pruner = Pruner::new(search(Prune::Asha, 10, 2), [90; 3]);
    let pauses = |rank, of| Verdict::Pauses(Reason::Rank { rank, of, step: 10, reduction: 2 });
    // 2.36 on the line between the two over the logarithm of the step, though it is at 1 when it is heard of.
    pruner.learn(0, &[(8, 3.0), (16, 1.0)]);
    pruner.learn(1, &[(10, 2.3)]);
    assert_eq!((pruner.mark(0), pruner.mark(1), pruner.mark(2)), (Some(10), Some(10), None));
    assert_eq!(pruner.verdicts()[..2], [pauses(2, 2), Verdict::GoesOn]);
    pruner.learn(1, &[(10, 2.4)]);
    assert_eq!(pruner.verdicts()[..2], [Verdict::GoesOn, pauses(2, 2)]);
    // Without a number before, what came first beyond stands for it.
    pruner.learn(2, &[(0, 9.0), (16, 2.37)]);
    assert_eq!(pruner.verdicts(), [Verdict::GoesOn, pauses(3, 3), pauses(2, 3)]);
    pruner.learn(2, &[(8, f64::NAN), (16, 2.35)]);
    assert_eq!(pruner.verdicts(), [pauses(2, 3), pauses(3, 3), Verdict::GoesOn]);
    let again = pruner.learn(0, &[(0, 9.0), (8, 3.0), (16, 1.0)]);
    assert!(!again && pruner.learn(0, &[(8, 1.0), (16, f64::NAN)]), "what is news");
    assert!(!pruner.learn(0, &[(8, 1.0), (16, f64::NAN)]), "NaN is NaN");
}

#[test]
fn a_rung_is_open_while_somebody_may_be_lifted_to_it_by_one_that_ends_before() {
    let mut pruner = Pruner::new(search(Prune::Asha, 10, 2), [90, 90, 15, 15]);
    pruner.learn(0, &[(10, 1.0), (20, 1.0)]);
    pruner.learn(1, &[(10, 2.0)]);
    for run in [0, 1] {
        pruner.set_fate(run, Fate::Paused);
    }
    let waits = Verdict::Pauses(Reason::Rank { rank: 1, of: 1, step: 20, reduction: 2 });
    assert_eq!(pruner.verdicts()[0], waits, "with both short ones at step 10, two of four go on from there");
    for run in [2, 3] {
        pruner.set_fate(run, Fate::Out);
    }
    assert_eq!(pruner.verdicts()[0], Verdict::GoesOn);
}
