//! Attention as data and as pictures.

use super::{
    super::{
        palette,
        tests::pictures::{bounds, decoded, overlap, show},
        text::has_glyph,
    },
    draw::pooled,
    figure::{figure, shown},
    layout::layout,
    patterns::{Pattern, survey},
    *,
};

fn token(id: u32, text: &str) -> Token {
    Token { id, text: text.into() }
}

/// A prompt whose letters are its tokens.
fn letters(text: &str) -> Vec<Token> {
    text.chars().map(|c| token(c as u32, &c.to_string())).collect()
}

/// Maps whose heads share a query's attention out in proportion to `score`: (layer, head, query, key).
fn maps(tokens: Vec<Token>, layers: usize, heads: usize, score: impl Fn(usize, usize, usize, usize) -> f64) -> Maps {
    let n = tokens.len();
    let mut weights = Vec::new();
    for (layer, head) in (0..layers).flat_map(|l| (0..heads).map(move |h| (l, h))) {
        for i in 0..n {
            let scores: Vec<f64> = (0..=i).map(|j| score(layer, head, i, j)).collect();
            let sum: f64 = scores.iter().sum();
            weights.extend((0..n).map(|j| scores.get(j).map_or(0.0, |s| s / sum) as f32));
        }
    }
    Maps { run: "3f2a91ab".into(), step: 60, tokens, layers, heads, weights }
}

/// Heads of every kind, by turns: what a pattern names has most of the attention, the rest is shared out unevenly.
fn mixed(tokens: Vec<Token>, layers: usize, heads: usize) -> Maps {
    let ids: Vec<u32> = tokens.iter().map(|t| t.id).collect();
    maps(tokens, layers, heads, |layer, head, i, j| {
        let noise = ((i * 7 + j * 13 + head * 5 + layer * 3) % 11) as f64 / 11.0 + 0.05;
        let is_named = match (layer * 3 + head * 2) % 7 {
            0 => j + 1 == i,
            1 => j == 0,
            2 => j == i,
            3 => j < i && ids[j] == ids[i],
            4 => j > 0 && j < i && ids[j - 1] == ids[i],
            5 => i - j < 5,
            _ => false,
        };
        noise * 0.1 + if is_named { 3.0 } else { 0.0 }
    })
}

const TEXT: &str = "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\n";

/// As GPT-2 cuts text, with parts of characters, letters that the font lacks, and a long one.
fn pieces() -> Vec<Token> {
    let texts = [
        "The",
        " transform",
        "ers",
        " read",
        " unquestionably",
        " 漢",
        "\u{fffd}",
        "😀",
        " ----------------------------------------",
        ",",
        " and",
        "\n",
        "\n",
        "\tso",
        " on",
    ];
    texts.iter().zip(464..).map(|(text, id)| token(id, text)).collect()
}

#[test]
fn a_pattern_s_mass_is_the_mean_over_the_queries_that_have_such_keys() {
    // a b c a b: the second `a` has an earlier one at 0, which `b` followed at 1; the second `b` one at 1, then `c` at 2.
    let uniform = survey(&maps(letters("abcab"), 1, 1, |_, _, _, _| 1.0));
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} is not {b}");
    let want = [
        (4, (1.0 / 2.0 + 1.0 / 3.0 + 1.0 / 4.0 + 1.0 / 5.0) / 4.0),
        (3, (1.0 / 3.0 + 1.0 / 4.0 + 1.0 / 5.0) / 3.0),
        (4, (1.0 / 2.0 + 1.0 / 3.0 + 1.0 / 4.0 + 1.0 / 5.0) / 4.0),
        (2, (1.0 / 4.0 + 1.0 / 5.0) / 2.0),
        (2, (1.0 / 4.0 + 1.0 / 5.0) / 2.0),
    ];
    for ((chance, want), mass) in uniform.chance.iter().zip(want).zip(uniform.heads[0].mass) {
        assert_eq!(chance.unwrap().0, want.0);
        close(chance.unwrap().1, want.1);
        close(mass.unwrap(), want.1);
    }
    assert_eq!(uniform.heads[0].pattern, None, "it looks at all keys alike");
    let entropy = (1.0 + 3f64.log2() + 2.0 + 5f64.log2()) / 4.0;
    close(uniform.uniform_entropy.unwrap(), entropy);
    close(uniform.heads[0].entropy.unwrap(), entropy);
}

#[test]
fn heads_go_by_what_they_look_at_the_clearest_first() {
    let maps = maps(letters("abcdeabcdeabcde"), 2, 3, |layer, head, i, j| {
        let same = |j: usize, i: usize| j % 5 == i % 5;
        let is_named = match (layer, head) {
            (0, 0) => j > 0 && j < i && same(j - 1, i),
            (0, 1) => j == 0,
            (0, 2) => return 1.0,
            (1, 0) => j + 1 == i,
            (1, 1) => j < i && same(j, i),
            _ => return if j + 1 == i { 5.0 } else { 1.0 },
        };
        if is_named { 100.0 } else { 0.1 }
    });
    let heads = survey(&maps).heads;
    let listed: Vec<_> = heads.iter().map(|h| (h.layer, h.head, h.pattern.map(Pattern::name))).collect();
    let want = [
        (1, 0, Some("previous-token")),
        (1, 2, Some("previous-token")),
        (0, 1, Some("first-token")),
        (1, 1, Some("duplicate-token")),
        (0, 0, Some("induction")),
        (0, 2, None),
    ];
    assert_eq!(listed, want);
    assert!(heads[0].mass[0].unwrap() > 0.95 && heads[0].entropy.unwrap() < 0.2, "{:?}", heads[0]);
}

#[test]
fn what_a_prompt_cannot_tell_is_not_told() {
    let one = survey(&maps(letters("a"), 1, 1, |_, _, _, _| 1.0));
    assert_eq!((one.chance, one.heads[0].mass, one.heads[0].entropy), ([None; 5], [None; 5], None));
    let two = survey(&maps(letters("ab"), 1, 1, |_, _, _, j| if j == 0 { 1.0 } else { 0.0 }));
    assert_eq!((two.heads[0].mass[0], two.heads[0].mass[1], two.heads[0].pattern), (Some(1.0), None, None), "too few");
    let mut broken = maps(letters("abcd"), 1, 1, |_, _, _, _| 1.0);
    broken.weights.fill(f32::NAN);
    let head = &survey(&broken).heads[0];
    assert!(head.mass[0].unwrap().is_nan() && head.pattern.is_none());
    assert!(!png(&broken, Choice::default()).unwrap().is_empty());
}

#[test]
fn tokens_are_shown_by_what_can_be_seen() {
    let shown: Vec<String> = pieces().iter().map(shown).collect();
    assert_eq!(shown[..5], ["The", "␣transform", "ers", "␣read", "␣unquestionably"]);
    assert_eq!((&*shown[5], &*shown[6], &*shown[7], &*shown[11], &*shown[13]), ("␣U+6F22", "[470]", "😀", "↵", "⇥so"));
    assert_eq!(super::figure::shown(&token(7, "")), "[7]");
    assert_eq!(super::figure::shown(&token(7, "\u{a0}\u{200b}")), "U+00A0U+200B");
    assert!(['␣', '↵', '⇥', '←'].into_iter().all(has_glyph));
    let notes = figure(&mixed(pieces(), 1, 1), Choice::default()).notes;
    assert!(notes[1].starts_with("␣ is a space, ↵ is a line end, ⇥ is a tab, a number in brackets"), "{notes:?}");
    let notes = figure(&mixed(vec![token(7, ""), token(8, "a")], 1, 1), Choice::default()).notes;
    assert!(notes[1].starts_with("A number in brackets is"), "{notes:?}");
}

#[test]
fn a_choice_says_which_heads_stand_where() {
    let maps = mixed(letters("abcab"), 3, 4);
    let figure = |layer, head| figure(&maps, Choice { layer, head });
    let all = figure(None, None);
    assert_eq!((all.title.as_str(), all.columns), ("Attention of run 3f2a91ab after step 60: 3 layers × 4 heads", 4));
    assert_eq!(all.maps.iter().map(|m| m.title[1].as_str()).nth(5), Some("L1 H1"));
    assert_eq!(all.maps[5].weights, maps.head(1, 1));
    let layer = figure(Some(2), None);
    assert_eq!((layer.columns, layer.maps.len(), layer.maps[3].title[0].as_str()), (2, 4, "layer 2, head 3"));
    assert!(layer.title.ends_with("layer 2, 4 heads"));
    assert!(figure(None, Some(1)).title.ends_with("head 1 of 3 layers"));
    let one = figure(Some(1), Some(2));
    assert!(one.title.ends_with("layer 1, head 2") && one.maps[0].title[0].is_empty());
    assert_eq!(one.tokens, ["a", "b", "c", "a", "b"]);
}

/// What a picture must survive, with a name each.
fn pictures() -> Vec<(&'static str, Maps, Choice)> {
    let one = Choice { layer: Some(0), head: Some(0) };
    let long: String = TEXT.chars().cycle().take(300).collect();
    vec![
        ("one_of_20", mixed(letters(&TEXT[..20]), 1, 1), one),
        ("one_of_60", mixed(letters(&TEXT[..60]), 2, 2), one),
        ("one_of_300", mixed(letters(&long), 1, 1), one),
        ("one_of_1", mixed(letters("a"), 1, 1), one),
        ("grid_of_1", mixed(letters("a"), 4, 4), Choice::default()),
        ("grid_4_4", mixed(letters(&TEXT[..60]), 4, 4), Choice::default()),
        ("grid_12_12", mixed(letters(&TEXT[..60]), 12, 12), Choice::default()),
        ("grid_12_12_of_10", mixed(letters(&TEXT[..10]), 12, 12), Choice::default()),
        ("grid_2_4_of_300", mixed(letters(&long), 2, 4), Choice::default()),
        ("layer_of_11", mixed(letters(&TEXT[..20]), 2, 11), Choice { layer: Some(1), head: None }),
        ("pieces", mixed(pieces(), 1, 1), one),
        ("pieces_grid", mixed(pieces(), 3, 4), Choice::default()),
    ]
}

#[test]
fn no_label_is_cut_off_or_covers_a_map_or_another_label() {
    for (name, maps, choice) in pictures() {
        let figure = figure(&maps, choice);
        let plan = layout(&figure);
        assert_eq!(plan.maps.len(), maps.chosen(choice).len());
        assert!(plan.size.0 <= 3400.0 && plan.size.1 <= 3600.0, "{name}: {:?}", plan.size);
        let boxes: Vec<_> = plan.labels.iter().map(|l| (bounds(l), &l.text)).collect();
        for (i, (a, text)) in boxes.iter().enumerate() {
            let inside = a.0 >= 0.0 && a.1 >= 0.0 && a.2 <= plan.size.0 && a.3 <= plan.size.1;
            assert!(inside, "{name}: {text:?} is cut off: {a:?} in {:?}", plan.size);
            // Letters of neighbouring rows may be as near as lines of text.
            let tight = (a.0 + 1.5, a.1 + 1.5, a.2 - 1.5, a.3 - 1.5);
            for (b, other) in &boxes[i + 1..] {
                assert!(!overlap(tight, *b), "{name}: {text:?} and {other:?} overlap: {a:?}, {b:?}");
            }
            for (_, (x, y)) in &plan.maps {
                assert!(!overlap(*a, (*x, *y, x + plan.side, y + plan.side)), "{name}: {text:?} covers a map");
            }
        }
    }
}

#[test]
fn pictures_are_drawn_the_same_each_time_and_blank_above_the_diagonal() {
    for (name, maps, choice) in pictures() {
        let bytes = png(&maps, choice).unwrap();
        show("attention", &format!("{name}.png"), &bytes);
        let (width, height, pixels) = decoded(&bytes);
        let is_colored = |p: &&[u8; 3]| p.iter().max().unwrap() - p.iter().min().unwrap() > 20;
        let colored = pixels.iter().filter(is_colored).count();
        assert!(colored > 3000 && height > 200, "{name}: {width} x {height}, {colored} coloured pixels");
        let figure = figure(&maps, choice);
        let plan = layout(&figure);
        let (_, (left, top)) = plan.maps[0];
        let at = |x: f64, y: f64| pixels[(top + y * plan.side) as usize * width + (left + x * plan.side) as usize];
        if maps.tokens.len() > 4 {
            assert_eq!(at(0.9, 0.1), [255; 3], "{name}: a query sees no later key");
            assert_ne!(at(0.1, 0.9), [255; 3], "{name}");
        }
    }
    let (_, maps, choice) = pictures().remove(0);
    assert!(png(&maps, choice).unwrap() == png(&maps, choice).unwrap());
}

#[test]
fn a_line_stays_a_line_where_many_tokens_share_a_pixel() {
    let maps = maps(letters(&"x".repeat(400)), 1, 1, |_, _, i, j| if j + 1 == i { 1.0 } else { 1e-9 });
    let weights = maps.head(0, 0);
    let diagonal: Vec<f64> = (1..100).map(|i| pooled(weights, 400, 100, (i, i))).collect();
    assert!(diagonal.iter().all(|&w| w > 0.99), "{diagonal:?}");
    assert!(pooled(weights, 400, 100, (50, 20)) < 0.01);
    let same: Vec<f64> = (0..400).map(|i| pooled(weights, 400, 400, (i, 0))).collect();
    assert!(same.iter().enumerate().all(|(i, &w)| w == f64::from(weights[400 * i])), "one token to a cell");
}

#[test]
fn colours_darken_evenly_so_that_grey_and_every_eye_tell_them_apart() {
    let lightness = |i: u32| {
        let c = palette::sequential(f64::from(i) / 20.0);
        let linear = |c: u8| (f64::from(c) / 255.0).powf(2.2);
        let y = 0.2126 * linear(c.0) + 0.7152 * linear(c.1) + 0.0722 * linear(c.2);
        116.0 * y.cbrt() - 16.0 // CIE L*
    };
    let steps: Vec<f64> = (0..20).map(|i| lightness(i) - lightness(i + 1)).collect();
    assert!(steps.iter().all(|s| (2.5..6.0).contains(s)), "{steps:?}");
    assert!(lightness(0) > 94.0 && lightness(20) < 25.0);
}
