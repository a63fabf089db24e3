//! The binary.
mod bench;
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
#[tokio::main]
async fn main() {
    let n = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    bench::probe(n, std::env::args().nth(2).is_some()).await;
}
