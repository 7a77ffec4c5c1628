//! How much memory this process has.

#![cfg_attr(all(unix, not(target_os = "linux")), expect(unsafe_code, reason = "calls the C library"))]

/// The most bytes of memory that this process has had at a time, or 0 where the system does not tell.
pub fn peak_resident_bytes() -> usize {
    // What `getrusage` tells on Linux may be the peak of the program that started this one.
    #[cfg(target_os = "linux")]
    {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
        kib.unwrap_or(0).saturating_mul(1024)
    }
    #[cfg(all(unix, not(target_os = "linux")))]
    {
        // SAFETY: `rusage` is a plain structure for which all zeros is valid; the C library fills it in and keeps nothing.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn memory_that_is_touched_counts() {
        let before = peak_resident_bytes();
        let bytes = vec![1_u8; before + (32 << 20)];
        std::hint::black_box(&bytes);
        assert!(peak_resident_bytes() >= before + (16 << 20), "{before}");
    }
}
