//! Names of key files: `UTC--2024-05-01T10-20-30.123456789Z--<address>`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use alloy_primitives::{Address, hex};

/// The form of the address in the name of a new key file. Names are never parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileNames {
    /// `xdc` and the mixed-case digits of EIP-55, as the reference client writes it.
    Prefixed,
    /// 40 lower-case digits, as go-ethereum writes it.
    #[default]
    Plain,
}

const SECONDS_PER_DAY: u64 = 86_400;

impl FileNames {
    pub(super) fn name(self, address: Address, now: SystemTime) -> String {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let (days, second) = (since.as_secs() / SECONDS_PER_DAY, since.as_secs() % SECONDS_PER_DAY);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let nanos = since.subsec_nanos();
        let address = match self {
            // The checksum's text begins with `0x`.
            Self::Prefixed => format!("xdc{}", &address.to_checksum(None)[2..]),
            Self::Plain => hex::encode(address),
        };
        format!("UTC--{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}.{nanos:09}Z--{address}")
    }
}

/// Year, month and day of a number of days since 1 January 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // Years begin on 1 March here, so that the leap day is the last day of a year.
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + 719_468;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next_year, month, day)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::address;

    use super::*;

    #[test]
    fn names_carry_the_time_and_the_address() {
        let address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        let cases = [
            (0, 0, "UTC--1970-01-01T00-00-00.000000000Z--"),
            (951_782_399, 999_999_999, "UTC--2000-02-28T23-59-59.999999999Z--"),
            (951_782_400, 0, "UTC--2000-02-29T00-00-00.000000000Z--"),
            (951_868_800, 7, "UTC--2000-03-01T00-00-00.000000007Z--"),
            (1_735_689_599, 0, "UTC--2024-12-31T23-59-59.000000000Z--"),
            (4_107_542_400, 0, "UTC--2100-03-01T00-00-00.000000000Z--"),
        ];
        for (seconds, nanos, wanted) in cases {
            let now = UNIX_EPOCH + Duration::new(seconds, nanos);

            let plain = FileNames::Plain.name(address, now);
            let prefixed = FileNames::Prefixed.name(address, now);

            assert_eq!(plain, format!("{wanted}f39fd6e51aad88f6f4ce6ab8827279cfffb92266"));
            assert_eq!(prefixed, format!("{wanted}xdcf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"));
        }
    }
}
