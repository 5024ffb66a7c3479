//! The control group that a container or a batch system puts this process into, as far as its memory goes: how much there
//! is, and whether the kernel killed somebody for want of it.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

/// How often the kernel has killed a process of our control group because its memory was used up. `None` where that
/// cannot be told.
pub fn oom_kills() -> Option<u64> {
    ours().iter().find_map(Group::oom_kills)
}

/// What a control group lets its processes have of the memory, in bytes; [`u64::MAX`] where it sets no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All that they may use.
    pub limit: u64,
    /// What they may use beyond what they do. Files that were read and may be forgotten again count as free, as they do
    /// in `MemAvailable`.
    pub free: u64,
}

/// The memory that is left to this process by its control group and every group around that one which can be seen.
pub fn memory() -> Memory {
    smallest(&ours())
}

fn ours() -> Vec<Group> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    groups(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
}

/// A control group that may govern memory, where its files lie.
#[derive(Clone, Debug, PartialEq)]
struct Group {
    version: Version,
    /// Its own folder, and the topmost that is to be seen: the root of all groups, or of those of the container.
    folder: PathBuf,
    top: PathBuf,
}

/// The kernel has two interfaces to control groups.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Version {
    One,
    Two,
}

impl Group {
    fn oom_kills(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        value(&fs::read_to_string(self.folder.join(file)).ok()?, "oom_kill")
    }

    /// A limit holds for all groups within, so each of those around ours may be the one that counts.
    fn memory(&self) -> Memory {
        let around = self.folder.ancestors().take_while(|folder| folder.starts_with(&self.top));
        around.map(|folder| self.version.memory(folder)).fold(Memory::UNLIMITED, Memory::min)
    }
}

impl Version {
    fn memory(self, folder: &Path) -> Memory {
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
        let number = |file: &str| read(file).trim().parse().ok(); // of the word `max` there is none
        let stat = read("memory.stat");
        // What files have of it may be forgotten, in use or not.
        let files = |names: [&str; 2]| names.into_iter().filter_map(|name| value(&stat, name)).sum::<u64>();
        let (limit, used, forgettable) = match self {
            // Version 1 may hide the groups around a container's; the kernel says all the same what they allow.
            Self::One => {
                let limits = [number("memory.limit_in_bytes"), value(&stat, "hierarchical_memory_limit")];
                let limit = limits.into_iter().flatten().min();
                (limit, number("memory.usage_in_bytes"), files(["total_inactive_file", "total_active_file"]))
            }
            Self::Two => {
                // Beyond the second of these a group is slowed down until it hardly moves.
                let limits = [number("memory.max"), number("memory.high")];
                let limit = limits.into_iter().flatten().min();
                (limit, number("memory.current"), files(["inactive_file", "active_file"]))
            }
        };
        let Some(limit) = limit else { return Memory::UNLIMITED };
        let used: u64 = used.unwrap_or(0);
        Memory { limit, free: limit.saturating_sub(used.saturating_sub(forgettable)) }
    }
}

impl Memory {
    const UNLIMITED: Self = Self { limit: u64::MAX, free: u64::MAX };

    fn min(self, other: Self) -> Self {
        Self { limit: self.limit.min(other.limit), free: self.free.min(other.free) }
    }
}

fn smallest(groups: &[Group]) -> Memory {
    groups.iter().map(Group::memory).fold(Memory::UNLIMITED, Memory::min)
}

/// The groups that may govern the memory of the process whose files these are, the likeliest first.
fn groups(cgroup: &str, mountinfo: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let (is_mine, version): (fn(&Mount) -> bool, _) = match controllers {
            "" => (|mount| mount.kind == "cgroup2", Version::Two),
            some if some.split(',').any(|controller| controller == "memory") => {
                (|mount| mount.kind == "cgroup" && mount.options.split(',').any(|o| o == "memory"), Version::One)
            }
            _ => continue,
        };
        for mount in mountinfo.lines().filter_map(Mount::parse).filter(is_mine) {
            // Inside a container the group's path may be the host's, which is mounted as the root; or lead out of it.
            let inside = Path::new(group).strip_prefix(mount.root).ok().filter(|path| is_below(path));
            let inside = inside.unwrap_or(Path::new(""));
            let top = PathBuf::from(mount.point);
            found.push(Group { version, folder: top.join(inside), top });
        }
    }
    found.sort_by_key(|group| group.version == Version::Two); // a group of version 1 that has the memory has all of it
    found
}

fn is_below(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// A line of `/proc/self/mountinfo`.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, what) = line.split_once(" - ")?;
        let (mut place, mut what) = (place.split(' ').skip(3), what.split(' '));
        let (root, point) = (place.next()?, place.next()?);
        let (kind, _source) = (what.next()?, what.next()?);
        Some(Self { root, point, kind, options: what.next()? })
    }
}

/// The number behind a word at the beginning of a line.
fn value(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_lies_where_its_kind_is_mounted() {
        let mounts = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
        let first = |cgroup: &str, mounts: &str| groups(cgroup, mounts).first().cloned();
        let found = |cgroup: &str, mounts: &str| first(cgroup, mounts).unwrap().folder;
        let (v1, v2) = ("0::/\n5:cpuset:/\n4:memory:/jobs/7\n1:cpu:/jobs/7\n", "0::/user.slice/a:b\n");
        assert_eq!(found(v1, mounts), Path::new("/sys/fs/cgroup/memory/jobs/7"));
        assert_eq!(found(v2, mounts), Path::new("/sys/fs/cgroup/unified/user.slice/a:b"));
        assert_eq!(first(v2, mounts).unwrap().top, Path::new("/sys/fs/cgroup/unified"));
        let inside = "35 31 0:32 /docker/4f /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(found("0::/docker/4f/worker\n", inside), Path::new("/sys/fs/cgroup/worker"));
        assert_eq!(found("0::/elsewhere\n", inside), Path::new("/sys/fs/cgroup"));
        assert_eq!(found("0::/../../elsewhere\n", &inside.replace("/docker/4f", "/")), Path::new("/sys/fs/cgroup"));
        assert_eq!((first(v1, ""), first("", mounts), first("garbage", "too")), (None, None, None));
    }

    #[test]
    fn kills_are_counted() {
        assert_eq!(value("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill"), Some(3));
        assert_eq!(value("low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n", "oom_kill"), Some(2));
        assert_eq!(value("oom_kill_disable 0\n", "oom_kill"), None);
    }

    /// Groups played by a folder; each file is written with its text.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(files: &[(&str, &str)]) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            for (file, text) in files {
                let path = tree.0.path().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            tree
        }

        fn group(&self, version: Version, folder: &str) -> Group {
            Group { version, folder: self.0.path().join(folder), top: self.0.path().into() }
        }
    }

    #[test]
    fn the_smallest_limit_around_a_process_counts() {
        let tree = Tree::new(&[
            ("memory.max", "max\n"),
            ("memory.current", "9000\n"),
            ("pod/memory.max", "4000\n"),
            ("pod/memory.current", "3500\n"),
            ("pod/job/memory.max", "max\n"),
            ("pod/job/memory.current", "100\n"),
            ("pod/job/step/memory.max", "5000\n"),
            ("pod/job/step/memory.current", "90\n"),
            ("pod/small/memory.max", "1000\n"),
            ("pod/small/memory.current", "1200\n"),
        ]);
        let of = |folder| tree.group(Version::Two, folder).memory();
        assert_eq!(of("pod/job/step"), Memory { limit: 4000, free: 500 });
        assert_eq!(of("pod/small"), Memory { limit: 1000, free: 0 });
        assert_eq!(of(""), Memory::UNLIMITED, "the root of all groups has no limit");
        let outside = Group { top: tree.0.path().join("pod/job"), ..tree.group(Version::Two, "pod/job/step") };
        assert_eq!(outside.memory(), Memory { limit: 5000, free: 4910 }, "nothing is read above the mount");
    }

    #[test]
    fn files_that_may_be_forgotten_count_as_free() {
        let tree = Tree::new(&[
            ("memory.max", "4000\n"),
            ("memory.current", "3500\n"),
            ("memory.stat", "anon 1000\nfile 2500\ninactive_file 2000\nactive_file 500\n"),
        ]);
        assert_eq!(tree.group(Version::Two, "").memory(), Memory { limit: 4000, free: 3000 });
    }

    #[test]
    fn version_one_says_what_the_groups_that_it_hides_allow() {
        let tree = Tree::new(&[
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("jobs/memory.limit_in_bytes", "8000\n"),
            ("jobs/memory.usage_in_bytes", "1000\n"),
            ("jobs/memory.stat", "inactive_file 1\nhierarchical_memory_limit 6000\ntotal_inactive_file 400\n"),
            ("jobs/7/memory.limit_in_bytes", "9223372036854771712\n"),
            ("jobs/7/memory.usage_in_bytes", "10\n"),
        ]);
        assert_eq!(tree.group(Version::One, "jobs/7").memory(), Memory { limit: 6000, free: 5400 });
    }

    #[test]
    fn a_group_that_does_not_govern_memory_takes_nothing_away() {
        let (ours, other) = (Tree::new(&[("memory.max", "70\n")]), Tree::new(&[("cgroup.procs", "1\n")]));
        let (ours, other) = (ours.group(Version::Two, ""), other.group(Version::One, "gone"));
        assert_eq!(smallest(&[other.clone(), ours]), Memory { limit: 70, free: 70 });
        assert_eq!((smallest(&[other]), smallest(&[])), (Memory::UNLIMITED, Memory::UNLIMITED));
    }
}
