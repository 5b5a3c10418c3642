//! `INFO`: what dashboards read.
//!
//! A figure that depends on the data or on what clients do with it is a constant here, of the form
//! that Redis gives it: hits, keys, memory, commands. What Fogbank itself counts stands in sections
//! of its own, the secret part of it only if that was asked for when the server was started.

use super::server::REDIS_VERSION;
use crate::resp::client::{Client, Server};
use crate::resp::frame::Request;
use crate::resp::keyspace::Outcome;
use crate::resp::reply::Reply;
use fogbank_env::Visibility;

/// `INFO [section...]`
pub fn info(client: &mut Client, request: &Request) -> Outcome {
    let wanted = |section: &str| {
        let everything = ["all", "default", "everything"];
        request.len() == 1
            || (1..request.len())
                .any(|at| request.is(at, section) || everything.iter().any(|w| request.is(at, w)))
    };
    let mut text = String::new();
    for (name, lines) in sections(&client.server) {
        if wanted(&name.to_ascii_lowercase()) {
            let gap = if text.is_empty() { "" } else { "\r\n" };
            text.push_str(&format!("{gap}# {name}\r\n"));
            lines.iter().for_each(|(key, value)| text.push_str(&format!("{key}:{value}\r\n")));
        }
    }
    Ok(Reply::Verbatim(text))
}

type Lines = Vec<(String, String)>;

fn sections(server: &Server) -> Vec<(&'static str, Lines)> {
    let up = server.clock.wall_ms().saturating_sub(server.started_ms) / 1000;
    let constants = |lines: &[(&str, &str)]| {
        lines.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect::<Lines>()
    };
    let with = |known: &[(&str, String)], others: &[(&str, &str)]| {
        let known = known.iter().map(|(key, value)| ((*key).into(), value.clone()));
        known.chain(constants(others)).collect::<Lines>()
    };
    let figures = |visibility| {
        let all = server.metrics.snapshot(visibility).into_iter();
        all.map(|(name, value)| (name.to_owned(), value.to_string())).collect::<Lines>()
    };
    let known_server = [
        ("redis_version", REDIS_VERSION.into()),
        ("redis_mode", "standalone".into()),
        ("fogbank_version", env!("CARGO_PKG_VERSION").into()),
        ("os", std::env::consts::OS.into()),
        ("arch_bits", usize::BITS.to_string()),
        ("process_id", std::process::id().to_string()),
        ("tcp_port", server.address.port().to_string()),
        ("uptime_in_seconds", up.to_string()),
        ("uptime_in_days", (up / 86_400).to_string()),
    ];
    let known_clients = [
        ("connected_clients", server.clients().len().to_string()),
        ("maxclients", server.limits.connections_max.to_string()),
    ];
    let saved = [("rdb_last_save_time", (server.started_ms / 1000).to_string())];
    let mut sections = vec![
        ("Server", with(&known_server, &[])),
        ("Clients", with(&known_clients, CLIENTS)),
        ("Memory", constants(MEMORY)),
        ("Persistence", with(&saved, PERSISTENCE)),
        ("Stats", constants(STATS)),
        ("Replication", constants(REPLICATION)),
        ("CPU", constants(&[("used_cpu_sys", "0.000000"), ("used_cpu_user", "0.000000")])),
        ("Errorstats", Lines::new()),
        ("Cluster", constants(&[("cluster_enabled", "0")])),
        ("Keyspace", Lines::new()),
        ("Fogbank", figures(Visibility::Public)),
    ];
    if server.secret_metrics {
        sections.push(("Secret", figures(Visibility::Secret)));
    }
    sections
}

const CLIENTS: &[(&str, &str)] = &[("blocked_clients", "0"), ("tracking_clients", "0")];

const MEMORY: &[(&str, &str)] = &[
    ("used_memory", "0"),
    ("used_memory_human", "0B"),
    ("used_memory_rss", "0"),
    ("used_memory_rss_human", "0B"),
    ("used_memory_peak", "0"),
    ("used_memory_peak_human", "0B"),
    ("used_memory_peak_perc", "0.00%"),
    ("used_memory_overhead", "0"),
    ("used_memory_startup", "0"),
    ("used_memory_dataset", "0"),
    ("used_memory_dataset_perc", "0.00%"),
    ("total_system_memory", "0"),
    ("total_system_memory_human", "0B"),
    ("used_memory_lua", "0"),
    ("maxmemory", "0"),
    ("maxmemory_human", "0B"),
    ("maxmemory_policy", "noeviction"),
    ("mem_fragmentation_ratio", "1.00"),
    ("mem_allocator", "libc"),
    ("lazyfree_pending_objects", "0"),
];

const PERSISTENCE: &[(&str, &str)] = &[
    ("loading", "0"),
    ("rdb_changes_since_last_save", "0"),
    ("rdb_bgsave_in_progress", "0"),
    ("rdb_last_bgsave_status", "ok"),
    ("aof_enabled", "0"),
    ("aof_rewrite_in_progress", "0"),
];

const STATS: &[(&str, &str)] = &[
    ("total_connections_received", "0"),
    ("total_commands_processed", "0"),
    ("instantaneous_ops_per_sec", "0"),
    ("total_net_input_bytes", "0"),
    ("total_net_output_bytes", "0"),
    ("instantaneous_input_kbps", "0.00"),
    ("instantaneous_output_kbps", "0.00"),
    ("rejected_connections", "0"),
    ("sync_full", "0"),
    ("sync_partial_ok", "0"),
    ("sync_partial_err", "0"),
    ("expired_keys", "0"),
    ("evicted_keys", "0"),
    ("keyspace_hits", "0"),
    ("keyspace_misses", "0"),
    ("pubsub_channels", "0"),
    ("pubsub_patterns", "0"),
    ("latest_fork_usec", "0"),
    ("total_error_replies", "0"),
];

const REPLICATION: &[(&str, &str)] =
    &[("role", "master"), ("connected_slaves", "0"), ("master_repl_offset", "0")];
