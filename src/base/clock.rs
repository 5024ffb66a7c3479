//! Wall-clock time as stored (milliseconds since the Unix epoch, UTC) and as shown (local time with its offset).

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// Milliseconds since the Unix epoch.
pub type Millis = i64;

/// The time now.
pub fn now() -> Millis {
    millis(SystemTime::now())
}

/// When a file was last written; now, where that cannot be told.
pub fn modified(path: &Path) -> Millis {
    path.metadata().and_then(|m| m.modified()).map_or_else(|_| now(), millis)
}

fn millis(time: SystemTime) -> Millis {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as Millis)
}

/// `2026-11-29T15:02:11.123Z`: UTC as ISO 8601 has it, for programs.
pub fn utc(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map_or_else(|_| format!("{at} ms"), |t| format!("{t:.3}"))
}

/// `2026-11-29 16:02:11 +01:00`: local time with its offset, for people.
pub fn local(at: Millis) -> String {
    match jiff::Timestamp::from_millisecond(at) {
        Ok(t) => {
            jiff::ZonedDateTime::new(t, jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string()
        }
        Err(_) => format!("{at} ms"),
    }
}
