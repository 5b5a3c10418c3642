//! Where what is typed of a shape comes from, and how it would be typed again.

use std::path::Path;

use bytesize::ByteSize;
use clap::ValueEnum;

use super::ShapeArgs;
use crate::error::{Error, Result};
use crate::preset::Preset;

impl ShapeArgs {
    /// Fills what is not given here from `file`.
    pub fn or(self, file: ShapeArgs) -> Self {
        Self {
            preset: self.preset.or(file.preset),
            capacity: self.capacity.or(file.capacity),
            value_size: self.value_size.or(file.value_size),
            read_batches: self.read_batches.or(file.read_batches),
            in_flight: self.in_flight.or(file.in_flight),
            windows: self.windows.or(file.windows),
            batch: self.batch.or(file.batch),
            write_batch: self.write_batch.or(file.write_batch),
            interval_ms: self.interval_ms.or(file.interval_ms),
            cache: self.cache.or(file.cache),
            bucket_reals: self.bucket_reals.or(file.bucket_reals),
            bucket_dummies: self.bucket_dummies.or(file.bucket_dummies),
            evict_every: self.evict_every.or(file.evict_every),
            leaf_level: self.leaf_level.or(file.leaf_level),
            xor: self.xor.or(file.xor),
        }
    }

    /// The same with what the preset stands for in its place, if one is given.
    pub fn spelled_out(self) -> Self {
        match self.preset {
            Some(preset) => Self { preset: None, ..self.or(preset.settings()) },
            None => self,
        }
    }

    /// What is given, as it would be typed.
    pub fn flags(&self) -> Vec<String> {
        let size = |size: ByteSize| format!("{}B", size.as_u64());
        let xor = self.xor.and_then(|xor| xor.to_possible_value());
        let typed = [
            ("--preset", self.preset.map(Preset::name)),
            ("--capacity", self.capacity.map(|value| value.to_string())),
            ("--value-size", self.value_size.map(size)),
            ("--read-batches", self.read_batches.map(|value| value.to_string())),
            ("--in-flight", self.in_flight.map(|value| value.to_string())),
            ("--windows", self.windows.map(|value| value.to_string())),
            ("--batch", self.batch.map(|value| value.to_string())),
            ("--write-batch", self.write_batch.map(|value| value.to_string())),
            ("--interval-ms", self.interval_ms.map(|value| value.to_string())),
            ("--cache", self.cache.map(size)),
            ("--bucket-reals", self.bucket_reals.map(|value| value.to_string())),
            ("--bucket-dummies", self.bucket_dummies.map(|value| value.to_string())),
            ("--evict-every", self.evict_every.map(|value| value.to_string())),
            ("--leaf-level", self.leaf_level.map(|value| value.to_string())),
            ("--xor", xor.map(|xor| xor.get_name().to_owned())),
        ];
        let typed = typed.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?]));
        typed.flatten().collect()
    }

    /// Fills what is not given from the TOML file at `path`, if there is one.
    ///
    /// # Errors
    /// [`Error::Usage`] if it cannot be read or has a key that is no setting.
    pub fn or_file(self, path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else { return Ok(self) };
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::Usage(format!("cannot read --config {}: {e}", path.display())))?;
        let file: ShapeArgs = toml::from_str(&text)
            .map_err(|e| Error::Usage(format!("--config {}: {e}", path.display())))?;
        Ok(self.or(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_fills_what_flags_leave_open_and_knows_no_other_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fogbank.toml");
        let text = "preset = \"busy\"\ncapacity = 7\nvalue-size = \"4KiB\"\nbatch = 3\n";
        std::fs::write(&path, text).unwrap();
        let flags = ShapeArgs { batch: Some(9), ..Default::default() };
        let merged = flags.or_file(Some(&path)).unwrap();
        assert_eq!((merged.capacity, merged.batch), (Some(7), Some(9)));
        assert_eq!(merged.value_size, Some(ByteSize::kib(4)));
        assert_eq!(merged.preset, Some(Preset::Busy));
        let spelled = merged.spelled_out();
        assert_eq!((spelled.preset, spelled.capacity, spelled.batch), (None, Some(7), Some(9)));
        assert_eq!(spelled.write_batch, Some(Preset::Busy.shape().write_batch));
        std::fs::write(&path, "capactiy = 7\n").unwrap();
        let told = ShapeArgs::default().or_file(Some(&path)).unwrap_err().to_string();
        assert!(told.contains("capactiy"), "{told}");
    }
}
