//! `quorate bench`.
#![allow(missing_docs, clippy::print_stdout)]

mod cycle;
mod measure;

use quorate_engine::Engine;
use quorate_sqlite::{Options, SqliteStore};
use quorate_store::{Chance, SystemClock};

pub(crate) async fn probe(n: usize, keyed: bool) {
    let dir = tempfile::tempdir().expect("dir");
    let mut sq = None;
    let engine = Engine::start(SystemClock::new(), Chance::system(), |w| {
        let s = SqliteStore::open(dir.path(), Options::default(), w)?;
        sq = Some(s.clone());
        Ok::<_, quorate_sqlite::OpenError>(s as _)
    })
    .expect("open");
    let space = engine.space("default".parse().expect("x")).await.expect("space");
    let agents = cycle::register(&space, 30).await.expect("reg");
    let c = cycle::Cycle { agents: 30, callers: 256, bytes: 256, cycles: n, keyed };
    let d0 = tempfile::tempdir().expect("d");
    let b = quorate_sqlite::bare_loop(d0.path(), n as u64, 128).expect("bare");
    println!("W0 {:.0}/s sync avg us {}", b.per_second, b.disk.wal.sync_ns_total / 1000 / b.disk.wal.syncs);
    let start = std::time::Instant::now();
    let l = cycle::run(&space, &agents, c).await.expect("run");
    let t = start.elapsed();
    let s = sq.expect("s").disk_counters();
    println!(
        "{} cycles {:.0}/s p50 {} p99 {} p999 {} wal syncs {} db syncs {} wal MB {} db MB {} sync avg us {}",
        l.count(),
        n as f64 / t.as_secs_f64(),
        l.at(0.5),
        l.at(0.99),
        l.at(0.999),
        s.wal.syncs,
        s.database.syncs,
        s.wal.written_bytes >> 20,
        s.database.written_bytes >> 20,
        s.wal.sync_ns_total / 1000 / s.wal.syncs.max(1)
    );
}
