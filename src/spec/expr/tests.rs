//! What conditions hold, and what is wrong with others.

use proptest::prelude::*;

use super::*;

/// `layers` is 4, `loss` 1.5, `best` none, `position` `rope`, `tied` true, `tags` `mine` and `old`.
struct Sample;

impl Names for Sample {
    fn find(&self, name: &str) -> std::result::Result<Field, (String, Option<String>)> {
        let field = |index, kind| Ok(Field { index, kind, words: &[] });
        match name {
            "layers" => field(0, Kind::Number),
            "loss" => field(1, Kind::Number),
            "best" => field(2, Kind::Number),
            "position" => Ok(Field { index: 3, kind: Kind::Text, words: &["learned", "rope", "none"] }),
            "tied" => field(4, Kind::Bool),
            "tags" => field(5, Kind::List),
            "model.name" => field(6, Kind::Text),
            _ => Err((format!("unknown name `{name}`"), None)),
        }
    }
}

fn value(index: usize) -> Value {
    match index {
        0 => Value::Number(4.0),
        1 => Value::Number(1.5),
        3 => Value::Text("rope".into()),
        4 => Value::Bool(true),
        5 => Value::List(vec!["mine".into(), "old".into()]),
        6 => Value::Text("it's".into()),
        _ => Value::None,
    }
}

fn holds(text: &str) -> bool {
    Expr::condition(text, &Sample).unwrap_or_else(|e| panic!("{e}")).holds(&value)
}

#[test]
fn conditions_hold_or_not() {
    for text in [
        "layers >= 4 and loss < 1.7",
        "layers == 4",
        "layers = 4",
        "3 < layers <= 4",
        "not layers == 5",
        "not (layers == 5 or loss > 2)",
        "layers == 5 or loss > 1 and tied",
        "position == rope",
        "rope == position",
        "position == 'rope'",
        "position != learned and position != none",
        "position in [none, rope]",
        "position in [rope, learned]",
        "layers in [2, 4]",
        "layers in (2, 4)",
        "layers not in [2, 8]",
        "\"mine\" in tags",
        "'new' not in tags",
        "best == none",
        "loss != none",
        "tied == true",
        "tied",
        "2 ** 3 ** 2 == 512 and -2 ** 2 == -4 and 2 ** -1 == 0.5",
        "7 % 4 == 3 and -1 % 4 == 3 and 7 - 2 - 1 == 4 and 8 / 2 / 2 == 2",
        "2 + 3 * 4 == 14 and (2 + 3) * 4 == 20 and 1e-3 == 0.001 and 1_000 == 1e3",
        "max(layers, 7, 2) == 7 and min(1, 2) == 1 and abs(-2) == 2 and log2(8) == 3 and sqrt(16) == layers",
        "round(1.5) == 2 and floor(1.9) == 1 and ceil(1.1) == 2 and abs(exp(log(2)) - 2) < 1e-9 and log10(100) == 2",
        "contains(model.name, \"t's\") and starts_with(model.name, 'it')",
    ] {
        assert!(holds(text), "{text}");
    }
    for text in [
        "layers > 4",
        "4 < layers <= 4",
        "best < 5",
        "best > 5",
        "best <= 5",
        "best == 5",
        "best + 1 > 0",
        "best >= best or best <= best",
        "not tied",
        "position in []",
        "layers == 4 and best > 0 and true",
        "position == none",
        "none == position",
        "loss == layers",
    ] {
        assert!(!holds(text), "{text}");
    }
}

#[test]
fn what_is_wrong_is_shown_where_it_stands() {
    for (text, at, why) in [
        ("", "", "there is nothing here"),
        ("layers > 1 && tied", "&&", "`&&` is written `and` here"),
        ("layers >", "", "a value is missing here"),
        ("layers > > 1", ">", "a value is missing before `>`"),
        ("layrs > 1", "layrs", "unknown name `layrs`"),
        ("layers", "layers", "this is a number, and a condition is wanted"),
        ("layers and tied", "layers", "this is a number, and a condition is wanted"),
        ("tied > true", "true", "only numbers and texts are less or greater"),
        ("best >= none", "none", "only numbers and texts are less or greater"),
        ("layers == rope", "rope", "unknown name `rope`"),
        ("layers == 'four'", "'four'", "this is a text, and it is compared with a number"),
        ("position == rop", "rop", "`rop` is never what this is compared with"),
        ("position in [rope, rop]", "rop", "`rop` is never what this is compared with"),
        ("layers in tied", "tied", "this is a condition, and a list is wanted"),
        ("tags == 'mine'", "'mine'", "compared with a list"),
        ("layers 4", "4", "nothing can follow here"),
        ("(layers > 1", "", "`)` is missing here"),
        ("layers in [1, 2", "", "`]` is missing here"),
        ("sqr(4) == 2", "sqr", "there is no function `sqr`"),
        ("sqrt(4, 5) == 2", "sqrt(4, 5)", "it takes 1 in the parentheses, and there are 2"),
        ("max(4) == 4", "max(4)", "it takes two or more"),
        ("3rd > 1", "3rd", "3rd is no number"),
        ("'open", "'open", "the text after ' does not end"),
        ("layers > 1 ; tied", ";", "';' has no meaning here"),
        ("é == 1", "é", "unknown name `é`"),
    ] {
        let error = Expr::condition(text, &Sample).unwrap_err();
        assert_eq!(error.exit, crate::base::Exit::Usage);
        let shown = error.to_string();
        assert!(shown.contains(why), "{text}: {shown}");
        let carets = shown.lines().last().unwrap();
        let width = carets.matches('^').count();
        assert_eq!(width, at.chars().count().max(1), "{text}: {shown}");
        let line = shown.lines().rev().nth(1).unwrap();
        let column = carets.chars().position(|c| c == '^').unwrap();
        let marked: String = line.chars().skip(column).take(width).collect();
        assert_eq!(marked.trim(), at, "{text}: {shown}");
    }
}

#[test]
fn depth_is_bounded_and_no_stack_is_used_up() {
    for text in
        ["(".repeat(100_000), "not ".repeat(100_000), "-".repeat(100_000), "2**".repeat(100_000), "abs(".repeat(9999)]
    {
        let error = Expr::condition(&text, &Sample).unwrap_err().to_string();
        assert!(error.contains("nests deeper than 64 levels"), "{}", &error[..200.min(error.len())]);
    }
    assert!(holds(&vec!["tied"; 10_000].join(" and ")), "and long ones are no deep ones");
    assert!(holds(&format!("{} == 1000", vec!["1"; 1000].join(" + "))));
    for sign in ["+", "*"] {
        let error =
            Expr::condition(&format!("{} > 1", vec!["1"; 100_000].join(sign)), &Sample).unwrap_err().to_string();
        assert!(error.contains("more than 1000 terms"), "{}", &error[..200]);
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "([a-z]{1,6}|[0-9.e_-]{1,4}|[-+*/%()<>=!,\\[\\]'\" ]|and|or|not|in|layers|é| ){0,16}") {
        let _ = Expr::condition(&text, &Sample).map(|expr| expr.value(&value));
    }
}
