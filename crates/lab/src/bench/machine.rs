//! The machine that a run is measured on.

use serde::Serialize;

/// What is known of it.
#[derive(Serialize)]
pub struct Machine {
    /// Processors that are there for us.
    pub cores: usize,
    /// Their model, where the system tells it.
    pub processor: Option<String>,
    /// Bytes of memory, where the system tells it.
    pub memory_bytes: Option<u64>,
}

impl Machine {
    /// Of this machine.
    pub fn read() -> Self {
        let told = |file| std::fs::read_to_string(file).unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: value(&told("/proc/cpuinfo"), "model name").map(str::to_owned),
            memory_bytes: memory(&told("/proc/meminfo"), "MemTotal"),
        }
    }

    /// In words.
    pub fn words(&self) -> String {
        let mut words = vec![format!("{} cores", self.cores)];
        words.extend(self.processor.clone());
        words.extend(
            self.memory_bytes.map(|bytes| format!("{:.1} GB of memory", bytes as f64 / 1e9)),
        );
        words.join(", ")
    }
}

/// The first value with this name, of lines `name : value`.
fn value<'a>(told: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = told.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(known, _)| known.trim() == name).map(|(_, value)| value.trim())
}

/// What Linux says it could still give, in bytes; other systems say nothing here.
pub fn memory_available() -> Option<u64> {
    memory(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")
}

/// Seconds of processors that this process has taken, all of its threads together, where Linux
/// tells it.
pub fn processor_seconds() -> Option<f64> {
    ticks(&std::fs::read_to_string("/proc/self/stat").ok()?).map(|ticks| ticks as f64 / 100.0)
}

/// What a process has taken, for itself and in calls of the system: fields 14 and 15. The second is
/// its name in brackets, in which anything may stand.
fn ticks(told: &str) -> Option<u64> {
    let (_, rest) = told.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let [own, system] = [fields.next()?, fields.next()?].map(str::parse::<u64>);
    Some(own.ok()? + system.ok()?)
}

fn memory(told: &str, name: &str) -> Option<u64> {
    let kib: u64 = value(told, name)?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_tells_is_read() {
        let told = "processor\t: 0\nmodel name\t: A <B>\nmodel name\t: C\n";
        assert_eq!(value(told, "model name"), Some("A <B>"));
        let told = "MemTotal:       24620288 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(memory(told, "MemTotal"), Some(24_620_288 * 1024));
        assert_eq!(memory(told, "MemAvailable"), Some(23_000_000 * 1024));
        let told = "7 (a) b) S 1 7 7 0 -1 4194560 106 0 0 0 25 17 0 0 20 0 1 0 2 8";
        assert_eq!((ticks(told), ticks("7 (a"), ticks("7 (a) S 1")), (Some(42), None, None));
        assert_eq!((value("", "model name"), memory("MemTotal: much\n", "MemTotal")), (None, None));
    }
}
