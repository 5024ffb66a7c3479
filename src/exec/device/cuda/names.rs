//! What GPUs are called, and which of them `CUDA_VISIBLE_DEVICES` shows. Pure; the rules are those of NVIDIA's CUDA
//! Programming Guide, appendix "CUDA Environment Variables".

/// The UUIDs of the GPUs that `list`, the value of `CUDA_VISIBLE_DEVICES`, shows, in its order; all where it is not set.
/// `uuids` are those of the machine's GPUs as `nvidia-smi` counts them, empty where one does not answer.
///
/// - An entry is such an index, or the beginning of a UUID (`GPU-8932f937`) that one GPU alone has.
/// - The first entry that names no GPU ends the list. So an empty one, `-1` and `NoDevFiles` show none.
/// - A list that names a GPU twice shows none. The guide does not say so; the driver does it.
/// - `MIG-…` is a part of a GPU, by its whole UUID as `nvidia-smi -L` prints it; `is_instance` says whether there is such
///   a one. CUDA shows a process the first of them alone, but each worker of ours is given one, so all are of use.
pub fn visible(list: Option<&str>, uuids: &[String], is_instance: impl Fn(&str) -> bool) -> Vec<String> {
    let Some(list) = list else { return uuids.iter().filter(|uuid| !uuid.is_empty()).cloned().collect() };
    let mut shown: Vec<String> = Vec::new();
    for entry in list.split(',').map(str::trim) {
        let instance = || (entry.starts_with("MIG-") && is_instance(entry)).then(|| entry.to_owned());
        let Some(uuid) = named(entry, uuids).cloned().or_else(instance) else { break };
        if shown.contains(&uuid) {
            return Vec::new();
        }
        shown.push(uuid);
    }
    shown
}

/// The GPU that an entry names by its index or by the beginning of its UUID.
fn named<'a>(entry: &str, uuids: &'a [String]) -> Option<&'a String> {
    if let Ok(index) = entry.parse::<usize>() {
        return uuids.get(index).filter(|uuid| !uuid.is_empty());
    }
    let mut begin_so = uuids.iter().filter(|uuid| entry.starts_with("GPU-") && uuid.starts_with(entry));
    begin_so.next().filter(|_| begin_so.next().is_none())
}

/// The UUID of a GPU as NVML writes it, from the bytes that CUDA has for it.
pub fn written(bytes: [std::ffi::c_char; 16]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect();
    let parts = [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| digits[part].concat());
    format!("GPU-{}", parts.join("-"))
}

/// Whether two UUIDs are one: CUDA's bytes do not tell a GPU from a part of one.
pub fn is_same(a: &str, b: &str) -> bool {
    a.trim_start_matches("GPU-") == b.trim_start_matches("GPU-").trim_start_matches("MIG-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUIDS: [&str; 4] = ["GPU-8932f937-d72c", "GPU-8932aaaa-0001", "GPU-5f", "GPU-77"];

    /// The numbers, by `nvidia-smi`, of the GPUs that a list shows.
    fn numbers(list: Option<&str>, uuids: &[&str]) -> Vec<usize> {
        let owned: Vec<String> = uuids.iter().map(|&uuid| uuid.into()).collect();
        let number = |uuid: &String| owned.iter().position(|other| other == uuid).unwrap();
        visible(list, &owned, |_| false).iter().map(number).collect()
    }

    fn shown(list: &str) -> Vec<usize> {
        numbers(Some(list), &UUIDS)
    }

    #[test]
    fn all_gpus_are_visible_where_nothing_is_said() {
        assert_eq!(numbers(None, &UUIDS), [0, 1, 2, 3]);
    }

    #[test]
    fn indices_are_taken_in_their_order() {
        assert_eq!(shown("2,1"), [2, 1]);
        assert_eq!(shown(" 3 , 0"), [3, 0]);
    }

    #[test]
    fn a_uuid_may_be_abbreviated_as_long_as_it_names_one() {
        assert_eq!(shown("GPU-8932f937-d72c,GPU-5"), [0, 2]);
        assert_eq!(shown("GPU-8932a,3"), [1, 3]);
        for nobody in ["GPU-8932", "GPU-", "GPU-9", "5f", "gpu-5f", "GPU-5f0"] {
            assert!(shown(nobody).is_empty(), "{nobody}");
        }
    }

    #[test]
    fn the_first_entry_that_names_none_ends_the_list() {
        assert_eq!(shown("0,2,-1,1"), [0, 2]);
        assert_eq!(shown("1,4,0"), [1]);
        assert_eq!(shown("1,,0"), [1]);
        assert_eq!(shown("3,GPU-8932,0"), [3]);
    }

    #[test]
    fn a_list_may_show_none() {
        for none in ["", " ", "-1", "NoDevFiles", "none", "4", "1;0"] {
            assert!(shown(none).is_empty(), "{none:?}");
        }
    }

    #[test]
    fn a_gpu_that_is_named_twice_hides_all() {
        for twice in ["0,0", "1,2,1", "2,GPU-5f", "0,1,GPU-8932f"] {
            assert!(shown(twice).is_empty(), "{twice}");
        }
        assert_eq!(shown("0,-1,0"), [0], "the list had ended");
    }

    #[test]
    fn a_gpu_that_does_not_answer_keeps_its_index() {
        let uuids = ["GPU-a", "", "GPU-c"];
        assert_eq!(numbers(None, &uuids), [0, 2]);
        assert_eq!(numbers(Some("2,1,0"), &uuids), [2]);
    }

    #[test]
    fn parts_of_a_gpu_are_named_in_full() {
        let uuids = ["GPU-a".to_owned()];
        let shown = |list| visible(Some(list), &uuids, |instance| ["MIG-1", "MIG-2"].contains(&instance));
        assert_eq!(shown("MIG-2,MIG-1"), ["MIG-2", "MIG-1"]);
        assert_eq!(shown("MIG-2,MIG-3,MIG-1"), ["MIG-2"]);
        assert!(shown("MIG-,MIG-1").is_empty() && shown("MIG-1,MIG-1").is_empty());
    }

    #[test]
    fn the_bytes_of_a_uuid_are_written_as_nvml_does() {
        let bytes = [0x89, 0x32, 0xf9, 0x37, 0xd7, 0x2c, 0x41, 0x06, 0xc1, 0x2f, 0x20, 0xbd, 0x9f, 0xae, 0xd9, 0x0f];
        let written = written(bytes.map(|byte: u8| byte as std::ffi::c_char));
        assert_eq!(written, "GPU-8932f937-d72c-4106-c12f-20bd9faed90f");
        assert!(is_same(&written, &written) && is_same(&written, "MIG-8932f937-d72c-4106-c12f-20bd9faed90f"));
        assert!(!is_same(&written, "GPU-8932f937-d72c-4106-c12f-20bd9faed9ff"));
    }
}
