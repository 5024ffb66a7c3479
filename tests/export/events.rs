//! TensorBoard's event files, read here by the formats' descriptions alone: no code of the writer's is used.

use std::collections::BTreeMap;

use exp::store::Store;

use crate::{BEGAN, exported, files, made};

/// A field of a message: its number, and what it holds.
#[derive(Clone, Debug, PartialEq)]
enum Wire {
    Int(u64),
    Double(f64),
    Bytes(Vec<u8>),
    Float(f32),
}

type Message = Vec<(u64, Wire)>;

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for place in 0.. {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << (7 * place);
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn message(mut bytes: &[u8]) -> Message {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Wire::Int(varint(&mut bytes)),
            kind => {
                let length = match kind {
                    1 => 8,
                    2 => varint(&mut bytes) as usize,
                    5 => 4,
                    other => panic!("wire type {other}"),
                };
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                match kind {
                    1 => Wire::Double(f64::from_le_bytes(value.try_into().unwrap())),
                    2 => Wire::Bytes(value.to_vec()),
                    _ => Wire::Float(f32::from_le_bytes(value.try_into().unwrap())),
                }
            }
        };
        fields.push((tag >> 3, value));
    }
    fields
}

fn get(message: &Message, field: u64) -> Option<&Wire> {
    message.iter().find(|(number, _)| *number == field).map(|(_, value)| value)
}

fn inner(outer: &Message, field: u64) -> Option<Message> {
    match get(outer, field)? {
        Wire::Bytes(bytes) => Some(message(bytes)),
        other => panic!("{other:?} is no message"),
    }
}

fn text(message: &Message, field: u64) -> Option<String> {
    match get(message, field)? {
        Wire::Bytes(bytes) => Some(String::from_utf8(bytes.clone()).unwrap()),
        other => panic!("{other:?} is no text"),
    }
}

fn double(message: &Message, field: u64) -> f64 {
    match get(message, field) {
        Some(Wire::Double(x)) => *x,
        other => panic!("{other:?} is no double"),
    }
}

/// CRC-32C bit by bit, as RFC 3720 has it, and TensorFlow's mask over it.
fn masked_crc(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    (!crc).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The events of a file, whose check sums must be right.
fn events(mut bytes: &[u8]) -> Vec<Message> {
    let mut events = Vec::new();
    let mut take = |n: usize| {
        let (taken, rest) = bytes.split_at(n);
        bytes = rest;
        (taken, rest.is_empty())
    };
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    loop {
        let (length, _) = take(8);
        assert_eq!(masked_crc(length), number(take(4).0));
        let (data, _) = take(u64::from_le_bytes(length.try_into().unwrap()) as usize);
        let (crc, is_end) = take(4);
        assert_eq!(masked_crc(data), number(crc));
        events.push(message(data));
        if is_end {
            return events;
        }
    }
}

/// What an event says: its time, its step, and of its one value the tag and all of it.
fn values(events: &[Message]) -> Vec<(f64, u64, String, Message)> {
    let value = |event: &Message| {
        let value = inner(&inner(event, 5)?, 1)?;
        let Some(Wire::Int(step)) = get(event, 2) else { panic!("it has no step") };
        Some((double(event, 1), *step, text(&value, 1)?, value))
    };
    events.iter().filter_map(value).collect()
}

#[test]
fn check_sums_are_those_of_the_rfc() {
    let sum = masked_crc(&[0; 32]).wrapping_sub(0xa282_ead8).rotate_left(15);
    assert_eq!(sum, 0x8a91_36aa, "RFC 3720, B.4");
}

#[test]
fn a_run_is_a_folder_with_its_curves() {
    let (home, lab, ids) = made();
    let to = home.root.path().join("out");
    let (code, said) = crate::export(&lab, &["sweep", "--format", "tensorboard"], &to);
    assert!(code == Some(0) && said.contains("2 runs") && said.contains("1 run never began"), "{said}");
    let mut files = files(&to);
    files.remove(".export.json");
    let name = |n: usize, seconds: &str| {
        let id = ids[n].to_string();
        let seed = n + 1;
        format!("sweep/seed={seed},{}/events.out.tfevents.{seconds}.{}", &id[..6], &id[..16])
    };
    let names = [name(0, "1700000000"), name(1, "1700000000")];
    assert_eq!(files.keys().collect::<std::collections::BTreeSet<_>>(), names.iter().collect());

    let events = events(&files[&names[0]]);
    assert_eq!(text(&events[0], 3).as_deref(), Some("brain.Event:2"));
    let mut curves: BTreeMap<String, Vec<(u64, u32)>> = BTreeMap::new();
    let mut times = BTreeMap::new();
    for (at, step, tag, value) in values(&events) {
        if let Some(Wire::Float(x)) = get(&value, 2) {
            times.insert((tag.clone(), step), at);
            curves.entry(tag).or_default().push((step, x.to_bits()));
        }
    }
    let store = Store::open(&home.root).unwrap();
    let want = store.metrics(&ids[0]).unwrap().into_iter();
    let want = want.map(|(name, curve)| (name, curve.iter().map(|&(step, x)| (step, (x as f32).to_bits())).collect()));
    assert_eq!(curves, want.collect());

    // An evaluation takes 1.5 ms and a step 5.25, from when the attempt was ready on.
    for (tag, step, after) in [
        ("val/loss", 0, 501.5),
        ("train/loss", 1, 506.75),
        ("grad_norm", 2, 512.0),
        ("train/loss", 3, 100_505.25),
        ("train/loss", 4, 100_510.5),
        ("val/loss", 4, 100_512.0),
    ] {
        let want = (BEGAN as f64 + after) / 1000.0;
        let at = times[&(tag.to_owned(), step)];
        assert!((at - want).abs() < 1e-6, "{tag} of step {step} at {at}, not {want}");
    }
}

#[test]
fn settings_ends_and_texts_go_with_it() {
    let (home, lab, ids) = made();
    let to = home.root.path().join("out");
    exported(&lab, &["sweep", "--format", "tensorboard"], &to);
    let of = |n: usize| {
        let files = files(&to);
        let (_, bytes) = files.iter().find(|(name, _)| name.ends_with(&ids[n].to_string()[..16])).unwrap();
        values(&events(bytes))
    };
    let hparams = |values: &[(f64, u64, String, Message)], tag: &str| {
        let (_, _, _, value) = values.iter().find(|(_, _, t, _)| t == tag)?;
        let data = inner(&inner(value, 9).unwrap(), 1).unwrap();
        assert_eq!(text(&data, 1).as_deref(), Some("hparams"));
        assert!(get(value, 8).is_some(), "a tensor stands for it");
        inner(&data, 2)
    };
    let first = of(0);
    let start = inner(&hparams(&first, "_hparams_/session_start_info").unwrap(), 3).unwrap();
    assert_eq!(double(&start, 5), BEGAN as f64 / 1000.0);
    let settings = start.iter().filter(|(field, _)| *field == 1).map(|(_, entry)| {
        let Wire::Bytes(entry) = entry else { panic!("{entry:?}") };
        let entry = message(entry);
        (text(&entry, 1).unwrap(), inner(&entry, 2).unwrap())
    });
    let settings: BTreeMap<String, Message> = settings.collect();
    assert_eq!(settings["train.lr"], [(2, Wire::Double(1e-5))]);
    assert_eq!(settings["train.seed"], [(2, Wire::Double(1.0))]);
    assert_eq!(settings["model.bias"], [(4, Wire::Int(1))]);
    assert_eq!(settings["model.qk_norm"], [(4, Wire::Int(0))]);
    assert_eq!(settings["sample.prompt"], [(3, Wire::Bytes("a, \"b\"\n'c' é\r\n".into()))]);
    assert!(!settings.contains_key("run.timeout"), "it is not set");
    for (n, status, at) in [(0, 1, BEGAN + 101_000), (1, 2, BEGAN + 9)] {
        let end = inner(&hparams(&of(n), "_hparams_/session_end_info").unwrap(), 4).unwrap();
        assert_eq!(end, [(1, Wire::Int(status)), (2, Wire::Double(at as f64 / 1000.0))]);
    }

    let (at, step, _, value) = first.iter().find(|(_, _, tag, _)| tag == "sample").unwrap();
    assert_eq!((*at, *step), ((BEGAN as f64 + 100_512.0) / 1000.0, 4));
    assert_eq!(text(&inner(value, 8).unwrap(), 8).as_deref(), Some("    one\n    # two\n"));
    assert_eq!(text(&inner(&inner(value, 9).unwrap(), 1).unwrap(), 1).as_deref(), Some("text"));
}
