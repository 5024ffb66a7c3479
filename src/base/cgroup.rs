//! The control group that a container or a batch system puts this process into, as far as it tells why a process was
//! killed.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// How often the kernel has killed a process of our control group because its memory was used up. `None` where that
/// cannot be told.
pub fn oom_kills() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let files = counters(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
    files.iter().find_map(|path| count(&fs::read_to_string(path).ok()?))
}

/// The files that may count, the likeliest first.
fn counters(cgroup: &str, mountinfo: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let (is_mine, file): (fn(&Mount) -> bool, _) = match controllers {
            "" => (|mount| mount.kind == "cgroup2", "memory.events"),
            some if some.split(',').any(|controller| controller == "memory") => (
                |mount| mount.kind == "cgroup" && mount.options.split(',').any(|o| o == "memory"),
                "memory.oom_control",
            ),
            _ => continue,
        };
        for mount in mountinfo.lines().filter_map(Mount::parse).filter(is_mine) {
            // Inside a container the group's path may be the host's, which is mounted as the root.
            let inside = Path::new(group).strip_prefix(mount.root).unwrap_or(Path::new(""));
            files.push(Path::new(mount.point).join(inside).join(file));
        }
    }
    files.sort_by_key(|file| file.ends_with("memory.events")); // a group of version 1 that has the memory has all of it
    files
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

/// The number behind `oom_kill`.
fn count(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_lies_where_the_group_is_mounted() {
        let mounts = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
        let first =
            |cgroup: &str, mounts: &str| counters(cgroup, mounts).first().map(|path| path.display().to_string());
        let (v1, v2) = ("0::/\n5:cpuset:/\n4:memory:/jobs/7\n1:cpu:/jobs/7\n", "0::/user.slice/a:b\n");
        assert_eq!(first(v1, mounts).unwrap(), "/sys/fs/cgroup/memory/jobs/7/memory.oom_control");
        assert_eq!(first(v2, mounts).unwrap(), "/sys/fs/cgroup/unified/user.slice/a:b/memory.events");
        let inside = "35 31 0:32 /docker/4f /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(first("0::/docker/4f/worker\n", inside).unwrap(), "/sys/fs/cgroup/worker/memory.events");
        assert_eq!(first("0::/elsewhere\n", inside).unwrap(), "/sys/fs/cgroup/memory.events");
        assert_eq!((first(v1, ""), first("", mounts), first("garbage", "too")), (None, None, None));
    }

    #[test]
    fn kills_are_counted() {
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(count("low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n"), Some(2));
        assert_eq!(count("oom_kill_disable 0\n"), None);
    }
}
