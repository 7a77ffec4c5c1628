//! Which units and memories of a machine belong to devices.

use super::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::machine::{HOST, Machine, MemoryId};
use crate::sync::Arc;

/// The devices of a machine. Clones are the same devices.
#[derive(Clone, Default)]
pub(in crate::engine) struct Devices {
    /// By memory; memories behind the last one belong to the host.
    of_memory: Vec<Option<Arc<dyn Device>>>,
    /// By unit; units behind the last one are threads.
    of_unit: Vec<Option<Arc<dyn Device>>>,
}

impl Devices {
    /// The units of a machine that are devices. Each computes alone in a memory of its own.
    pub fn new(
        machine: &Machine,
        devices: impl IntoIterator<Item = (usize, Arc<dyn Device>)>,
    ) -> Result<Self> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Usage, message));
        let mut found = Devices::default();
        for (unit, device) in devices {
            let name = device.name();
            let Some(memory) = machine.units.get(unit).map(|unit| unit.memory) else {
                let n = machine.units.len();
                return refuse(format!("{name} is to be unit {unit} of {n}: units are counted from 0"));
            };
            let mut others = machine.units.iter().enumerate().filter(|(other, _)| *other != unit);
            if memory == HOST || others.any(|(_, other)| other.memory == memory) {
                return refuse(format!(
                    "{name} is unit {unit}, which shares memory {memory} with others: a device computes in a memory of \
                     its own"
                ));
            }
            if found.of_unit(unit).is_some() || found.all().any(|(_, other)| Arc::ptr_eq(other, &device)) {
                return refuse(format!(
                    "unit {unit} is given to {name}, and it or the unit is given already"
                ));
            }
            found.of_memory.resize(found.of_memory.len().max(memory + 1), None);
            found.of_unit.resize(found.of_unit.len().max(unit + 1), None);
            found.of_memory[memory] = Some(Arc::clone(&device));
            found.of_unit[unit] = Some(device);
        }
        for link in &machine.links {
            if let (Some(from), Some(to)) = (found.of(link.from), found.of(link.to))
                && !to.can_copy_from(&**from)
            {
                let (from, to, ids) = (from.name(), to.name(), (link.from, link.to));
                return refuse(format!(
                    "memories {} and {} are linked, and {to} cannot copy from {from}: leave the link out, and copies go \
                     through the host",
                    ids.0, ids.1
                ));
            }
        }
        Ok(found)
    }

    /// The device that a memory belongs to.
    #[inline]
    pub fn of(&self, memory: MemoryId) -> Option<&Arc<dyn Device>> {
        self.of_memory.get(memory)?.as_ref()
    }

    /// The device that a unit is.
    #[inline]
    pub fn of_unit(&self, unit: usize) -> Option<&Arc<dyn Device>> {
        self.of_unit.get(unit)?.as_ref()
    }

    /// The devices, with their units.
    pub fn all(&self) -> impl Iterator<Item = (usize, &Arc<dyn Device>)> {
        self.of_unit.iter().enumerate().filter_map(|(unit, device)| Some((unit, device.as_ref()?)))
    }

    /// The memories that the host's threads can read and write, as bits.
    pub fn visible(&self) -> u32 {
        let hidden = self.of_memory.iter().enumerate().filter(|(_, device)| device.is_some());
        !hidden.fold(0, |hidden, (memory, _)| hidden | 1 << memory)
    }
}
