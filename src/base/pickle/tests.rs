//! What of pickles is understood, what is refused, and that neither takes much.

use super::*;

#[test]
fn what_torch_writes_is_understood() {
    // {'a': [1, 300, -2], 'b': (True, None, 0.5)}, as `pickle.dumps(…, 2)` writes it.
    let bytes = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01M\x2c\x01J\xfe\xff\xff\xffeX\x01\x00\x00\x00bq\x03\x88NG?\xe0\x00\x00\x00\x00\x00\x00\x87q\x04u.";
    let tree = Tree::read(bytes).unwrap();
    let list = tree.list(tree.get(tree.root(), "a").unwrap()).unwrap();
    assert_eq!(list.iter().map(|id| tree.int(*id).unwrap()).collect::<Vec<_>>(), [1, 300, -2]);
    assert!(tree.get(tree.root(), "c").is_none());
    // {'vocab_size': 2, 'itos': {0: 'a', 1: 'é'}}, as `pickle.dumps(…)` writes it.
    let bytes = b"\x80\x04\x95\x26\0\0\0\0\0\0\0}\x94(\x8c\nvocab_size\x94K\x02\x8c\x04itos\x94}\x94(K\0\x8c\x01a\x94K\x01\x8c\x02\xc3\xa9\x94uu.";
    let tree = Tree::read(bytes).unwrap();
    let itos = tree.get(tree.root(), "itos").unwrap();
    assert_eq!(tree.text(tree.get_numbered(itos, 1).unwrap()), Some("é"));
}

#[test]
fn calls_are_refused_by_name_and_not_made() {
    let system = b"\x80\x02cposix\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03.";
    assert!(Tree::read(system).unwrap_err().contains("it calls posix.system"));
    let object = b"\x80\x02ccollections\nCounter\n)\x81.";
    assert!(Tree::read(object).unwrap_err().contains("0x81"));
    assert!(Tree::read(b"\x80\x06.").unwrap_err().contains("protocol 6"));
}

#[test]
fn neither_depth_nor_repetition_takes_more_than_the_file() {
    let deep = [vec![b'N'], vec![0x85; 1 << 20], vec![b'.']].concat();
    drop(Tree::read(&deep).unwrap());
    // Each round doubles what the value would be if it were written out.
    let double = b"q\x00h\x00\x86".repeat(1000);
    drop(Tree::read(&[&b"N"[..], &double[..], b"."].concat()).unwrap());
    assert!(Tree::read(&vec![b'N'; LONGEST + 1]).is_err());
    assert!(Tree::read(b"X\xff\xff\xff\xff").unwrap_err().contains("too early"));
    assert!(Tree::read(b"\x8a\xff").unwrap_err().contains("too early"));
}

#[test]
fn neither_long_names_nor_many_dimensions_are_copied() {
    let text = |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let storage = |key: &str| {
        [&b"("[..], &text("storage"), b"ctorch\nFloatStorage\n", &text(key), b"tq\x00", &b"h\x00Q".repeat(2000), b"."]
            .concat()
    };
    assert!(Tree::read(&storage("7")).is_ok());
    let error = Tree::read(&storage(&"7".repeat(1 << 20))).unwrap_err();
    assert!(error.contains("by 1048576 bytes, more than 32"), "{error}");

    let tensors = |dimensions: usize| {
        let sizes = [&b"("[..], &b"K\x01".repeat(dimensions), b"tq\x01"].concat();
        let rebuild = b"ctorch._utils\n_rebuild_tensor_v2\nq\x02(h\x03K\x00h\x01h\x01tq\x04R";
        let storage = [&b"("[..], &text("storage"), b"ctorch\nFloatStorage\n", &text("7"), b"tQq\x03"].concat();
        [&sizes[..], &storage, rebuild, &b"h\x02h\x04R".repeat(100), b"."].concat()
    };
    let tree = Tree::read(&tensors(8)).unwrap();
    let tensor = tree.tensor(tree.root()).unwrap();
    assert_eq!((tensor.storage, tensor.key, tensor.offset), ("torch FloatStorage", "7", 0));
    assert_eq!((tensor.shape, tensor.strides), (vec![1; 8], vec![1; 8]));
    let error = Tree::read(&tensors(9)).unwrap_err();
    assert!(error.contains("it calls torch._utils._rebuild_tensor_v2 in another way than torch does"), "{error}");
}

#[test]
fn no_bytes_make_it_panic() {
    let alphabet = b"\x80\x02.\x8c\x94(NK\x01M\x8aGXc\n)]}\x85\x86\x87taesuqrhjQRb\x00\xff";
    let mut rng = crate::base::rng::stream(1, "test/pickle");
    for _ in 0..20_000 {
        let length = crate::base::rng::below(&mut rng, 24);
        let draw = |_| alphabet[crate::base::rng::below(&mut rng, alphabet.len() as u64) as usize];
        let bytes: Vec<u8> = (0..length).map(draw).collect();
        let _ = Tree::read(&bytes);
    }
}
