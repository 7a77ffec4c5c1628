//! Days and times of the calendar, in UTC, from seconds since 1970.

const SECONDS_OF_DAY: u64 = 86_400;
/// From the first of March of the year 0 to 1970-01-01.
const DAYS_BEFORE_1970: u64 = 719_468;
/// The calendar repeats itself every 400 years.
const DAYS_OF_ERA: u64 = 146_097;

/// The day, as in 2026-11-15.
pub fn day(seconds: u64) -> String {
    // Years begin in March here, so that the day that some years have comes last.
    let days = seconds / SECONDS_OF_DAY + DAYS_BEFORE_1970;
    let (era, of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The day and the time, as in 2026-11-15T18:30:00Z.
pub fn time(seconds: u64) -> String {
    let second = seconds % SECONDS_OF_DAY;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{}T{hour:02}:{minute:02}:{second:02}Z", day(seconds))
}

/// The seconds of what [`time`] wrote; none of any other text.
pub fn parse(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let is_sane = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let days = is_sane.then(|| days_of(year, month, day))?;
    let seconds = SECONDS_OF_DAY * days + 3600 * number(11..13)? + 60 * number(14..16)? + number(17..19)?;
    // Only what is written is read.
    (time(seconds) == text).then_some(seconds)
}

/// Days from 1970-01-01 to a date.
fn days_of(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - DAYS_BEFORE_1970
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let day_of = |days: u64| day(days * SECONDS_OF_DAY + SECONDS_OF_DAY - 1);
        assert_eq!(day_of(0), "1970-01-01");
        assert_eq!(day_of(58), "1970-02-28");
        assert_eq!(day_of(59), "1970-03-01");
        assert_eq!(day_of(789), "1972-02-29");
        assert_eq!(day_of(11_016), "2000-02-29");
        assert_eq!(day_of(20_772), "2026-11-15");
        assert_eq!(day_of(47_540), "2100-02-28");
        assert_eq!(day_of(47_541), "2100-03-01");
        // What a damaged file may say is a date too, at once.
        assert_eq!(day(u64::MAX), "584554051223-11-09");
    }

    #[test]
    fn times_are_read_as_they_were_written() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(time(seconds), text);
            assert_eq!(parse(text), Some(seconds));
        }
        for wrong in [
            "",
            "2024",
            "2023-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-01-01 00:00:00Z",
            "äääääääääääääääääääää",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
