//! How much memory this process has.

#![cfg_attr(unix, expect(unsafe_code, reason = "calls the C library"))]

/// The most bytes of memory that this process has had at a time, or 0 where the system does not tell.
pub fn peak_resident_bytes() -> usize {
    // What `getrusage` tells on Linux may be the peak of the program that started this one.
    #[cfg(target_os = "linux")]
    {
        status_bytes("VmHWM:").unwrap_or(0)
    }
    #[cfg(all(unix, not(target_os = "linux")))]
    {
        // SAFETY: `rusage` is a plain structure for which all zeros is valid; the C library fills it in and
        // keeps nothing.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            if libc::getrusage(libc::RUSAGE_SELF, &mut usage) != 0 {
                return 0;
            }
            usage
        };
        // Apple counts bytes, all others kibibytes.
        let unit = if cfg!(target_vendor = "apple") { 1 } else { 1024 };
        usize::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(unit)
    }
    #[cfg(not(unix))]
    0
}

/// The bytes of memory that this process has now. None where the system does not tell.
pub fn resident_bytes() -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        status_bytes("VmRSS:")
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// What Linux tells of a process is a page or two.
#[cfg(target_os = "linux")]
const MAX_STATUS_BYTES: u64 = 1 << 20;

/// A number that Linux tells of this process.
#[cfg(target_os = "linux")]
fn status_bytes(name: &str) -> Option<usize> {
    let status = crate::file::read_text("/proc/self/status".as_ref(), MAX_STATUS_BYTES).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// How many bytes of a piece of memory the system has given to this process so far: of an allocation, the
/// pages that were touched. None where the system does not tell.
pub fn resident_bytes_in(memory: &[u8]) -> Option<usize> {
    resident_bytes_at(memory.as_ptr(), memory.len())
}

/// The same of memory that may be written meanwhile, or whose elements nobody may look at.
pub(crate) fn resident_bytes_at(pointer: *const u8, bytes: usize) -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: it asks for a number and has no other effect.
        let page =
            usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok().filter(|&page| page > 0)?;
        let (start, end) = (pointer as usize, pointer as usize + bytes);
        let first = start / page * page;
        let mut states = vec![0_u8; (end - first).div_ceil(page)];
        if bytes == 0 {
            return Some(0);
        }
        // SAFETY: the address is that of a page, and there is a byte for each page up to the end. The pages
        // themselves are not touched, and if one is not there the call fails.
        let failed =
            unsafe { libc::mincore(first as *mut libc::c_void, end - first, states.as_mut_ptr()) } != 0;
        let part = |i: usize| (first + (i + 1) * page).min(end) - (first + i * page).max(start);
        let resident = states.iter().enumerate().filter(|(_, state)| **state & 1 == 1);
        (!failed).then(|| resident.map(|(i, _)| part(i)).sum())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (pointer, bytes);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn of_an_allocation_only_what_is_touched_counts() {
        let n = 64 << 20;
        let mut bytes = vec![0_u8; n];
        let untouched = resident_bytes_in(&bytes).unwrap();
        assert!(untouched < n / 4, "{untouched}");
        // A piece in the middle, which begins and ends within a page.
        let range = (8 << 20) + 100..(24 << 20) + 33;
        bytes[range.clone()].fill(1);
        assert_eq!(resident_bytes_in(&bytes[range.clone()]), Some(range.len()));
        let touched = resident_bytes_in(&bytes).unwrap();
        assert!(touched >= range.len() && touched < n / 2, "{touched}");
        assert_eq!(resident_bytes_in(&[]), Some(0));
    }

    #[test]
    #[cfg(unix)]
    fn memory_that_is_touched_counts() {
        let before = peak_resident_bytes();
        let bytes = vec![1_u8; before + (32 << 20)];
        std::hint::black_box(&bytes);
        assert!(peak_resident_bytes() >= before + (16 << 20), "{before}");
        #[cfg(target_os = "linux")]
        {
            // Linux counts in batches per core, so that two numbers may differ by some pages.
            let (now, peak) = (resident_bytes().unwrap(), peak_resident_bytes());
            assert!(now >= before + (16 << 20) && now <= peak + (1 << 20), "{before} {now} {peak}");
        }
    }
}
