//! Metrics of the keys that KMS plugins encrypt, under upstream's names.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use metrics::{Counter, Histogram, head};

/// Upstream's buckets: 14 from five microseconds on, each twice the one before.
const SECONDS: &[f64] =
    &[5e-6, 1e-5, 2e-5, 4e-5, 8e-5, 1.6e-4, 3.2e-4, 6.4e-4, 1.28e-3, 2.56e-3, 5.12e-3, 1.024e-2, 2.048e-2, 4.096e-2];

/// Counts data keys that are made, and how those that plugins of version 1 have decrypted are found again.
pub struct KeyMeters {
    generation_seconds: Histogram,
    generation_failures: Counter,
    cache_misses: Counter,
    /// Keys remembered, and how many may be.
    remembered: AtomicU64,
    most: AtomicU64,
}

impl Default for KeyMeters {
    fn default() -> KeyMeters {
        KeyMeters {
            generation_seconds: Histogram::new(SECONDS),
            generation_failures: Counter::default(),
            cache_misses: Counter::default(),
            remembered: AtomicU64::new(0),
            most: AtomicU64::new(0),
        }
    }
}

impl KeyMeters {
    /// Makes a data key.
    pub(crate) fn generate<K>(&self, make: impl FnOnce() -> Result<K, String>) -> Result<K, String> {
        let began = Instant::now();
        let made = make();
        match &made {
            Ok(_) => self.generation_seconds.observe(began.elapsed().as_secs_f64()),
            Err(_) => self.generation_failures.increment(),
        }
        made
    }

    /// Counts a data key that was not remembered.
    pub(crate) fn missed(&self) {
        self.cache_misses.increment();
    }

    /// Notes how many data keys are remembered.
    pub(crate) fn remembers(&self, keys: usize, most: usize) {
        self.remembered.store(keys as u64, Ordering::Relaxed);
        self.most.store(most as u64, Ordering::Relaxed);
    }

    /// Writes the metrics.
    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        use std::fmt::Write;
        let name = "apiserver_storage_data_key_generation_duration_seconds";
        head(out, name, "histogram", "Latencies in seconds of data encryption key(DEK) generation operations.")?;
        self.generation_seconds.write(name, "", out)?;
        for (name, help, counter) in [
            (
                "apiserver_storage_data_key_generation_failures_total",
                "Total number of failed data encryption key(DEK) generation operations.",
                &self.generation_failures,
            ),
            (
                "apiserver_storage_envelope_transformation_cache_misses_total",
                "Total number of cache misses while accessing key decryption key(KEK).",
                &self.cache_misses,
            ),
        ] {
            head(out, name, "counter", help)?;
            writeln!(out, "{name} {}", counter.value())?;
        }
        let name = "apiserver_envelope_encryption_dek_cache_fill_percent";
        head(out, name, "gauge", "Percent of the cache slots currently occupied by cached DEKs.")?;
        let most = self.most.load(Ordering::Relaxed).max(1) as f64;
        writeln!(out, "{name} {}", self.remembered.load(Ordering::Relaxed) as f64 / most)
    }
}
