//! Figures in the text format that Prometheus scrapes.

use fogbank_env::{Metrics, Visibility};

/// All figures of one visibility, and none of the other.
pub fn exposition(metrics: &Metrics, visibility: Visibility) -> String {
    let figures = metrics.snapshot(visibility);
    let lines = figures
        .iter()
        .map(|(name, value)| format!("# TYPE fogbank_{name} untyped\nfogbank_{name} {value}\n"));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_visibility_never_shows_the_other() {
        let metrics = Metrics::default();
        metrics.gauge(Visibility::Public, "epochs").set(3);
        metrics.gauge(Visibility::Secret, "stash_size").set(9);
        let text = exposition(&metrics, Visibility::Public);
        assert_eq!(text, "# TYPE fogbank_epochs untyped\nfogbank_epochs 3\n");
        let text = exposition(&metrics, Visibility::Secret);
        assert_eq!(text, "# TYPE fogbank_stash_size untyped\nfogbank_stash_size 9\n");
    }
}
