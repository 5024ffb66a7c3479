//! The devices of a sweep, with their memory as it is now.

use std::{collections::BTreeMap, mem};

use crate::{
    base::Result,
    exec::{
        Slot, Slots,
        device::{DeviceInfo, Devices},
        slots::{Lack, Need, Refusal},
    },
};

/// The devices that a source names. Asking it may take some ms, so that is done once for all that happens at a time.
pub struct Here<'a> {
    source: &'a dyn Devices,
    devices: Vec<DeviceInfo>,
    is_fresh: bool,
    /// Whether the source was asked since somebody wanted to know what is free.
    is_news: bool,
    /// Where a run was refused just now. Those behind it are not to slip past it because they need less.
    full: BTreeMap<String, Refusal>,
}

impl<'a> Here<'a> {
    /// The devices that `source` names now.
    pub fn new(source: &'a dyn Devices) -> Self {
        Self { source, devices: source.list(), is_fresh: true, is_news: false, full: BTreeMap::new() }
    }

    /// What there is.
    pub fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    /// Something happened: what was found out until now may be otherwise.
    pub fn look_again(&mut self) {
        self.is_fresh = false;
        self.full.clear();
    }

    /// Free bytes of each device, where it was looked at since this was last asked.
    pub fn free(&mut self) -> Option<Vec<Option<u64>>> {
        mem::take(&mut self.is_news).then(|| self.devices.iter().map(|device| device.memory_free).collect())
    }

    /// Takes a slot on the device of that name, unless that is refused.
    pub fn take(&mut self, slots: &mut Slots, device: &str, need: Need) -> Result<Result<Slot, Refusal>> {
        if let Some(refusal) = self.full.get(device) {
            return Ok(Err(refusal.clone()));
        }
        if !self.is_fresh {
            self.refresh();
        }
        let taken = match self.devices.iter().find(|info| info.name == device) {
            Some(info) => slots.take(info, need)?,
            None => Err(Refusal { lack: Lack::Place, runs: Vec::new(), free: None, others: 0 }),
        };
        if let Err(refusal) = &taken {
            self.full.insert(device.to_owned(), refusal.clone());
        }
        Ok(taken)
    }

    /// Lets others take their turn on all devices but the awaited ones, which are named.
    pub fn pass<'b>(&self, slots: &mut Slots, awaited: impl Iterator<Item = &'b str>) {
        let id = |name| self.devices.iter().find(|info| info.name == name).map(|info| info.id.as_str());
        slots.pass(&awaited.filter_map(id).collect::<Vec<_>>());
    }

    /// Brings the memory of the devices up to date. One that is not here any more stays as it was: a worker that is started
    /// there will tell what is the matter with it. Names are those that the devices had at first, whichever have gone.
    fn refresh(&mut self) {
        let now = self.source.list();
        for known in &mut self.devices {
            if let Some(info) = now.iter().find(|info| info.id == known.id) {
                (known.memory_total, known.memory_free) = (info.memory_total, info.memory_free);
            }
        }
        (self.is_fresh, self.is_news) = (true, true);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::base::{RunId, folders::Root};

    struct Changing(RefCell<Vec<DeviceInfo>>);

    impl Devices for Changing {
        fn list(&self) -> Vec<DeviceInfo> {
            self.0.borrow().clone()
        }
    }

    fn gpu(n: usize, id: &str, free: u64) -> DeviceInfo {
        let (name, id, model) = (format!("cuda:{n}"), id.to_owned(), String::new());
        DeviceInfo { name, id, model, cores: None, memory_total: Some(100), memory_free: Some(free) }
    }

    #[test]
    fn a_gpu_that_falls_off_the_bus_gives_its_name_to_no_other() {
        let source = Changing(RefCell::new(vec![gpu(0, "a", 90), gpu(1, "b", 90), gpu(2, "c", 90)]));
        let mut here = Here::new(&source);
        *source.0.borrow_mut() = vec![gpu(0, "a", 80), gpu(1, "c", 50)];
        here.look_again();
        let dir = tempfile::tempdir().unwrap();
        let mut slots = Slots::new(&Root::new(dir.path()));
        let mut take = |device| {
            let need = Need { run: RunId([1; 32]), threads: 1, bytes: 10, takes_over: false };
            here.take(&mut slots, device, need).unwrap().unwrap().id
        };
        assert_eq!(["cuda:0", "cuda:1", "cuda:2"].map(&mut take), ["a", "b", "c"]);
        assert_eq!(here.free().unwrap(), [80, 90, 50].map(Some));
        assert_eq!(here.free(), None, "that was told");
    }
}
