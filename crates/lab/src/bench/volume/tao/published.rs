//! What TaoStore's paper tells of the same settings in its evaluation. Its figures have no table,
//! so only what the text says stands here.

use super::setting::PaperLink;

/// What the paper tells of one point; what it does not is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Published {
    /// Accesses a second.
    pub ops_per_s: Option<f64>,
    /// Mean response time.
    pub latency_ms: Option<f64>,
    /// Mean time to fetch a path from the server's disk, its memory having the top of the tree.
    pub path_ms: Option<f64>,
}

/// The clients that it goes up to.
pub const CLIENTS_MAX: usize = 15;
/// Figure 8 (a): clients, accesses a second, response time. That at 10 clients follows from "a
/// decrease by 60 %" to 102 ms in the datacentre, that at 15 from "an increase by 45 %".
const WAN: [(usize, f64, f64); 3] = [(1, 17.95, 55.68), (10, 40.0, 255.0), (15, 40.0, 370.0)];
/// The same in the datacentre.
const DATACENTRE: [(usize, f64, f64); 1] = [(10, 97.63, 102.0)];
/// Figure 8 (b): the share of the data that is cached, and the time to fetch a path.
pub const CACHED: [(f64, f64); 3] = [(0.0, 6.12), (0.016, 2.68), (0.063, 1.7)];
/// Its k for all of these.
pub const WRITE_BACK_EVERY: u32 = 40;
/// Our levels are whole ones, the paper's shares are rounded.
const SHARE_NEAR: f64 = 0.001;

/// What is told of `clients` over `link` with k and a share of the data cached.
pub fn published(link: Option<PaperLink>, clients: usize, k: u32, share: f64) -> Published {
    let rows: &[_] = match link {
        Some(PaperLink::Wan) => &WAN,
        Some(PaperLink::Datacentre) => &DATACENTRE,
        None => &[],
    };
    if k != WRITE_BACK_EVERY {
        return Published::default();
    }
    let row = rows.iter().find(|row| row.0 == clients && share == 0.0);
    let cached = CACHED.iter().find(|row| (row.0 - share).abs() < SHARE_NEAR);
    Published {
        ops_per_s: row.map(|row| row.1),
        latency_ms: row.map(|row| row.2),
        path_ms: cached.filter(|_| link == Some(PaperLink::Wan)).map(|row| row.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_their_setting_only() {
        let wan = |clients, k, share| published(Some(PaperLink::Wan), clients, k, share);
        assert_eq!(wan(1, 40, 0.0).ops_per_s, Some(17.95));
        assert_eq!(wan(15, 40, 0.0).latency_ms, Some(370.0));
        assert_eq!(wan(10, 40, 0.0156).path_ms, Some(2.68));
        assert_eq!(wan(10, 40, 0.0156).ops_per_s, None);
        assert_eq!(wan(10, 80, 0.0), Published::default());
        assert_eq!(wan(7, 40, 0.031), Published::default());
        assert_eq!(published(Some(PaperLink::Datacentre), 10, 40, 0.0).path_ms, None);
        assert_eq!(published(None, 10, 40, 0.0), Published::default());
    }
}
