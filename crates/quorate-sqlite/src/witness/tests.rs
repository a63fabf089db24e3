//! Loss and damage of the write-ahead log, of the private store and of the witness itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::{
    AgentId, Commit, DeliveryId, Destination, Extend, Generation, Key, LeaseRef, Message, Op, OpResult,
    Payload, Principal, PutEntry, Receipt, RegisterAgent, SpaceName, WaitMode,
};
use quorate_store::{Entropy, ManualClock, Store as _, StoreContext};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::*;
use crate::verify::Damage;
use crate::{FileKind, Options, Repeat, SqliteStore, VerifyReport, verify};

/// Far longer than any test: the witness is written only when the test asks for it, or at close.
const NEVER: Duration = Duration::from_secs(100_000);

fn options() -> Options {
    Options { witness_delay: NEVER, ..Options::default() }
}

/// An open store.
struct Opened {
    store: Arc<SqliteStore>,
    runtime: Runtime,
}

fn open(directory: &Path, options: Options) -> Result<Opened, OpenError> {
    let context = StoreContext {
        clock: ManualClock::at(1_800_000_000_000),
        entropy: Entropy::seeded(1),
        sink: Arc::new(drop),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    Ok(Opened { store: SqliteStore::open(directory, options, context)?, runtime })
}

impl Opened {
    fn space(&self, name: &str) -> Result<SpaceNo, quorate_store::StoreError> {
        self.runtime.block_on(self.store.space(SpaceName::new(name).unwrap()))
    }

    /// Writes an entry of the default space, in a batch of its own.
    fn put(&self, key: &str) -> Result<(), quorate_store::StoreError> {
        let space = self.space("default")?;
        let put = PutEntry {
            key: Key::new(key).unwrap(),
            entry_type: "note".into(),
            content: Payload::seal(Bytes::from_static(b"\"content\""), [7; 16]),
            content_type: None,
            expect: None,
            depends_on: Vec::new(),
            fence: None,
        };
        let commit = Commit::new(Principal::System, vec![Op::Put(put)]);
        let results = self.runtime.block_on(self.store.transact(space, vec![commit]))?;
        results.into_iter().for_each(|result| drop(result.unwrap()));
        Ok(())
    }

    /// Executes an operation of the default space, in a batch of its own.
    fn execute(&self, op: Op) -> Receipt {
        let space = self.space("default").unwrap();
        let commit = Commit::new(Principal::System, vec![op]);
        self.runtime.block_on(self.store.transact(space, vec![commit])).unwrap().remove(0).unwrap()
    }

    fn close(self) {
        self.runtime.block_on(self.store.close());
    }
}

/// Copies a directory as a crash would leave it.
fn crashed(from: &Path) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    copy_files(from, to.path());
    to
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&target).unwrap();
            copy_files(&entry.path(), &target);
        } else if !entry.file_name().to_string_lossy().ends_with("-shm") {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn wal(directory: &Path) -> PathBuf {
    directory.join("quorate.db-wal")
}

fn stated(directory: &Path) -> Position {
    match Location::of(directory).read().unwrap().unwrap() {
        Statement::Durable(position) => position,
        other => panic!("{other:?}"),
    }
}

fn head(report: &VerifyReport) -> u64 {
    report.spaces.first().map_or(0, |space| space.head_seq.0)
}

/// Asserts that no command accepts a directory, and that none changes it.
#[track_caller]
fn assert_damaged(directory: &Path, damage: Damage, reason: &str) {
    let files = || -> Vec<Vec<u8>> {
        [database_path(directory), wal(directory), directory.join(WITNESS)]
            .iter()
            .map(|file| fs::read(file).unwrap_or_default())
            .collect()
    };
    let before = files();
    let defect = verify(directory, None).unwrap().first_defect.expect("a defect");
    assert!(defect.damage == damage && defect.detail.contains(reason), "{defect:?}");
    let target = tempfile::tempdir().unwrap();
    assert!(crate::backup(directory, &target.path().join("backup")).is_err());
    assert!(crate::backup_dry_run(directory, &target.path().join("backup")).is_err());
    assert!(crate::export(directory, None, Seq(1), |_| Ok(())).is_err());
    assert!(crate::checkpoints(directory).is_err());
    let error = open(directory, options()).map(Opened::close).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains(reason), "{error}");
    assert!(files() == before, "something was changed");
}

// Fails under: a start, `verify`, a backup or an export that does not compare the data with the witness; a witness that is
// written only at close; a start that checkpoints before it compares.
#[test]
fn i22_a_deleted_write_ahead_log_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open(directory.path(), options()).unwrap();
    (0..3).for_each(|n| opened.put(&format!("k{n}")).unwrap());
    opened.store.flush_witness();
    let intact = crashed(directory.path());
    assert!(verify(intact.path(), None).unwrap().ok);
    assert_eq!(stated(intact.path()).batch, 4, "the space, and three entries");
    let lost = crashed(directory.path());
    fs::remove_file(wal(lost.path())).unwrap();
    assert_damaged(lost.path(), Damage::Truncated, "4 acknowledged batches are missing");
    open(intact.path(), options()).unwrap().close();
    opened.close();
}

// Fails under: a batch number that is only written with later commits; a number that starts again after a restart.
#[test]
fn i22_the_loss_of_a_new_space_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open(directory.path(), options()).unwrap();
    opened.put("k").unwrap();
    opened.close();
    assert_eq!(stated(directory.path()).batch, 2);
    let opened = open(directory.path(), options()).unwrap();
    opened.space("second").unwrap();
    opened.store.flush_witness();
    assert_eq!((stated(directory.path()).batch, stated(directory.path()).space), (3, SpaceNo(2)));
    let lost = crashed(directory.path());
    fs::remove_file(wal(lost.path())).unwrap();
    assert_damaged(lost.path(), Damage::Truncated, "1 acknowledged batches are missing");
    opened.close();
}

// Fails under: a batch number that is only written together with a record.
#[test]
fn i22_the_loss_of_a_lease_extension_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open(directory.path(), options()).unwrap();
    let bob = AgentId::new("bob").unwrap();
    opened.execute(Op::RegisterAgent(RegisterAgent::named(bob.clone())));
    let payload = Payload::seal(Bytes::from_static(b"1"), [7; 16]);
    opened.execute(Op::send(Message::new(Destination::Agent(bob.clone()), "say", payload)));
    let claim = Op::Claim { agent: bob, max: 1, lease_ms: 5_000, wait: WaitMode::NoWait };
    let leased = match opened.execute(claim).results.remove(0) {
        OpResult::Claimed(leased) => leased[0].clone(),
        other => panic!("{other:?}"),
    };
    opened.close();
    let opened = open(directory.path(), options()).unwrap();
    let delivery = DeliveryId { generation: Generation(0), number: leased.delivery };
    let lease = LeaseRef { delivery, token: leased.token };
    assert_eq!(opened.execute(Op::Extend(Extend { lease, lease_ms: 40_000 })).seq, None);
    opened.store.flush_witness();
    let lost = crashed(directory.path());
    fs::remove_file(wal(lost.path())).unwrap();
    assert_damaged(lost.path(), Damage::Truncated, "1 acknowledged batches are missing");
    opened.close();
}

// Fails under: recovery that accepts a shorter log; a witness that is compared by record instead of by batch.
#[test]
fn i22_a_flipped_byte_in_the_write_ahead_log_is_detected_or_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open(directory.path(), options()).unwrap();
    (0..6).for_each(|n| opened.put(&format!("k{n}")).unwrap());
    opened.store.flush_witness();
    let crash = crashed(directory.path());
    opened.close();
    let expected = head(&verify(crash.path(), None).unwrap());
    let intact = fs::read(wal(crash.path())).unwrap();
    let written = intact.iter().rposition(|byte| *byte != 0).unwrap();
    let mut detected = 0;
    for flip in 0..60 {
        let mut bytes = intact.clone();
        bytes[flip * 7919 % written] ^= 0x10;
        fs::write(wal(crash.path()), bytes).unwrap();
        let report = verify(crash.path(), None).unwrap();
        detected += usize::from(!report.ok);
        assert!(!report.ok || head(&report) == expected, "flip {flip}: {report:?}");
    }
    assert!(detected > 30, "{detected} of 60");
}

// Fails under: a start that does not state what recovery found, so that it can be lost later.
#[test]
fn i22_what_recovery_found_is_stated_after_a_start() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open(directory.path(), options()).unwrap();
    opened.put("k").unwrap();
    let crash = crashed(directory.path());
    opened.close();
    assert_eq!(stated(crash.path()).batch, 0, "the hub was killed before the witness was written");
    let opened = open(crash.path(), options()).unwrap();
    opened.store.flush_witness();
    assert_eq!(stated(crash.path()).batch, 2);
    let lost = crashed(crash.path());
    fs::remove_file(wal(lost.path())).unwrap();
    assert_damaged(lost.path(), Damage::Truncated, "2 acknowledged batches are missing");
    opened.close();
}

// Fails under: a witness of the main store only; a start that creates a missing private store.
#[test]
fn i22_a_deleted_private_store_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    let private = private_directory(directory.path());
    let opened = open(directory.path(), options()).unwrap();
    opened.put("k").unwrap();
    let flags = open(&private, options()).unwrap();
    flags.put("flag").unwrap();
    flags.close();
    opened.close();
    assert!(verify(directory.path(), None).unwrap().ok);
    assert!(!private.join(WITNESS).exists(), "one witness names both stores");
    fs::remove_dir_all(&private).unwrap();
    assert_damaged(directory.path(), Damage::Deleted, "quorate.private is missing");
    // Also if it is only emptied, or opened on its own.
    fs::create_dir(&private).unwrap();
    assert!(open(directory.path(), options()).map(Opened::close).unwrap_err().is_damage());
    assert!(open(&private, options()).map(Opened::close).unwrap_err().is_damage());
}

// Fails under: a missing database that is created anew.
#[test]
fn i22_a_deleted_database_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open(directory.path(), options()).unwrap();
    opened.put("k").unwrap();
    opened.close();
    fs::remove_file(database_path(directory.path())).unwrap();
    let error = open(directory.path(), options()).map(Opened::close).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("quorate.db is missing"), "{error}");
    assert!(verify(directory.path(), None).unwrap_err().is_damage());
}

// Fails under: a witness that is created anew, or accepted without its checksum or its store.
#[test]
fn i22_a_missing_foreign_or_damaged_witness_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open(directory.path(), options()).unwrap();
    opened.put("k").unwrap();
    opened.close();
    let file = directory.path().join(WITNESS);
    let intact = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert_damaged(directory.path(), Damage::Deleted, "quorate.witness is missing");
    let other = tempfile::tempdir().unwrap();
    open(other.path(), options()).unwrap().close();
    fs::copy(other.path().join(WITNESS), &file).unwrap();
    assert_damaged(directory.path(), Damage::Forked, "another store");
    fs::write(&file, []).unwrap();
    assert_damaged(directory.path(), Damage::Deleted, "states nothing");
    let flipped = |slots: &[usize]| {
        let mut bytes = intact.clone();
        slots.iter().for_each(|slot| bytes[slot * SLOT_BYTES + 30] ^= 1);
        bytes
    };
    fs::write(&file, flipped(&[0, 1])).unwrap();
    assert_damaged(directory.path(), Damage::Edited, "both copies are invalid");
    // An interrupted write leaves one of them.
    for slot in [0, 1] {
        fs::write(&file, flipped(&[slot])).unwrap();
        assert!(verify(directory.path(), None).unwrap().ok, "slot {slot}");
    }
}

// Fails under: a witness that does not have the hash of the newest record.
#[test]
fn i22_a_replaced_history_is_detected() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open(directory.path(), options()).unwrap();
    opened.put("k").unwrap();
    opened.close();
    let location = Location::of(directory.path());
    let position = Position { hash: [1; 32], ..stated(directory.path()) };
    location.create(&Disk::new(), &position).unwrap();
    assert_damaged(directory.path(), Damage::Forked, "the history was replaced");
}

// Fails under: a slot that is overwritten although it has the newest position.
#[test]
fn i22_the_slots_are_written_alternately() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open(directory.path(), options()).unwrap();
    let batches = || {
        let bytes = fs::read(directory.path().join(WITNESS)).unwrap();
        [0, 1].map(|slot| Position::decode(&bytes[slot * SLOT_BYTES..][..SLOT_BYTES]).unwrap().batch)
    };
    let mut expected = [0, 0];
    for n in 0..5 {
        opened.put(&format!("k{n}")).unwrap();
        opened.store.flush_witness();
        let newer = usize::from(expected[0] > expected[1]);
        expected[newer] = stated(directory.path()).batch;
        assert_eq!(batches(), expected);
        assert!(expected[newer] > expected[1 - newer]);
    }
    opened.close();
}

// Fails under: a witness that is created after the database has its name; a creation that leaves a file that it does not
// accept later.
#[test]
fn i22_a_kill_at_any_disk_operation_of_the_creation_is_harmless() {
    // Every operation of the creation, and some of the first batches and the close.
    for op in (1..80).chain((80..).step_by(9)) {
        let directory = tempfile::tempdir().unwrap();
        let private = private_directory(directory.path());
        let disk = Disk::new();
        disk.faults().cut_power_at(op);
        let create = |directory: &Path| {
            let opened = open(directory, Options { disk: Some(Arc::clone(&disk)), ..options() })?;
            // What was written is in the page cache, which survives a kill.
            let put = opened.put("k");
            opened.close();
            Ok::<_, OpenError>(put.is_ok())
        };
        let is_complete =
            create(directory.path()).is_ok_and(|put| put) && create(&private).is_ok_and(|put| put);
        for directory in [directory.path(), &private] {
            let opened = open(directory, options());
            opened.unwrap_or_else(|error| panic!("killed at operation {op}: {error:?}")).close();
        }
        assert!(verify(directory.path(), None).unwrap().ok);
        if is_complete && !disk.faults().is_power_cut() {
            assert!(op > 40, "only {op} operations");
            return;
        }
    }
}

// Fails under: a full disk that ends the thread or the hub.
#[test]
fn i22_a_full_disk_delays_the_witness() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::new();
    let opened = open(directory.path(), Options { disk: Some(Arc::clone(&disk)), ..options() }).unwrap();
    opened.put("k").unwrap();
    opened.store.flush_witness();
    let before = stated(directory.path()).batch;
    // An overwrite needs no space, except on a file system that copies on write. The log has preallocated space.
    fs::OpenOptions::new().write(true).open(directory.path().join(WITNESS)).unwrap().set_len(0).unwrap();
    disk.faults().limit_free_space(0);
    opened.put("l").unwrap();
    let ops = disk.faults().ops();
    std::thread::scope(|scope| {
        scope.spawn(|| opened.store.flush_witness());
        // Only the attempt to write the witness.
        while disk.faults().ops() == ops {
            std::thread::yield_now();
        }
        opened.put("m").unwrap();
        disk.faults().lift_space_limit();
        opened.store.flush_witness();
    });
    assert_eq!(stated(directory.path()).batch, before + 2);
    opened.close();
}

// Fails under: an I/O error of the witness that is only logged; a writer that takes another batch after it.
#[test]
fn i22_after_an_io_error_of_the_witness_nothing_is_acknowledged() {
    let write = |disk: &Disk| disk.faults().fail_write(Some(FileKind::Other), 1, Repeat::Once);
    let sync = |disk: &Disk| disk.faults().fail_sync(Some(FileKind::Other), 1, Repeat::Once);
    let injections: [fn(&Disk); 2] = [write, sync];
    for inject in injections {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        let opened = open(directory.path(), Options { disk: Some(Arc::clone(&disk)), ..options() }).unwrap();
        opened.put("k").unwrap();
        inject(&disk);
        opened.store.flush_witness();
        let error = opened.put("l").unwrap_err();
        assert!(
            matches!(&error, quorate_store::StoreError::Failed(text) if text.contains("witness")),
            "{error}"
        );
        assert!(!error.is_not_applied());
        opened.close();
        // The batch before it is durable, and nothing else was written.
        let opened = open(directory.path(), options()).unwrap();
        assert_eq!(opened.store.spaces().len(), 1);
        opened.close();
        assert_eq!(head(&verify(directory.path(), None).unwrap()), 2);
    }
}
