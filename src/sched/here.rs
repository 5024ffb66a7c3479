//! The devices of a sweep, with their memory as it is now.

use std::collections::BTreeSet;

use crate::{
    base::Result,
    exec::{
        Slot, Slots,
        device::{DeviceInfo, Devices},
        slots::Need,
    },
};

/// The devices that a source names. Asking it may take some ms, so that is done once for all that happens at a time.
pub struct Here<'a> {
    source: &'a dyn Devices,
    devices: Vec<DeviceInfo>,
    is_fresh: bool,
    /// On which a run found no place just now. Those behind it are not to slip past it because they need less.
    full: BTreeSet<String>,
}

impl<'a> Here<'a> {
    /// The devices that `source` names now.
    pub fn new(source: &'a dyn Devices) -> Self {
        Self { source, devices: source.list(), is_fresh: true, full: BTreeSet::new() }
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

    /// Takes a slot on the device of that name. `None` where there is none now.
    pub fn take(&mut self, slots: &mut Slots, device: &str, need: Need) -> Result<Option<Slot>> {
        if self.full.contains(device) {
            return Ok(None);
        }
        if !self.is_fresh {
            self.refresh();
        }
        let slot = match self.devices.iter().find(|info| info.name == device) {
            Some(info) => slots.take(info, need)?,
            None => None,
        };
        if slot.is_none() {
            self.full.insert(device.to_owned());
        }
        Ok(slot)
    }

    /// Brings the devices up to date. One that is not named any more stays as it was: a worker that is started there will
    /// tell what is the matter with it.
    fn refresh(&mut self) {
        let now = self.source.list();
        for known in &mut self.devices {
            if let Some(info) = now.iter().find(|info| info.name == known.name) {
                known.clone_from(info);
            }
        }
        self.is_fresh = true;
    }
}
