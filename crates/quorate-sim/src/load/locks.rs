//! Callers that take locks, write under them, and go on writing when they should not.

use std::sync::Arc;

use super::Shared;
use crate::history::{Act, Call, Event, LockAct};
use crate::seed::Dice;

/// The locks that they fight over.
const LOCKS: u64 = 3;
/// How long they are held: shorter than a run, so that some end by themselves.
const TTL_MS: u64 = 1_000;

impl Shared {
    pub(super) async fn lock(self: Arc<Self>, index: usize) {
        let task = format!("l{index}");
        let dice = self.dice(&task);
        let mut count = 0;
        while self.take() {
            count += 1;
            let by = dice.pick(&self.names).clone();
            let id = format!("{}-{task}-{count}", self.load.run);
            if self.hold(&dice, &id, &by).await.is_none() {
                return;
            }
        }
    }

    /// Takes locks, writes under them, gives some back and writes again. `None` when the storage failed.
    async fn hold(&self, dice: &Dice, id: &str, by: &str) -> Option<()> {
        let mut names = vec![format!("l{}", dice.below(LOCKS))];
        if dice.percent(30) {
            names.push(format!("l{}", dice.below(LOCKS)));
        }
        let call = |part: &str, act: LockAct| Call {
            id: format!("{id}{part}"),
            by: by.to_owned(),
            act: Act::Lock(act),
        };
        let taken = self.call(call("", LockAct::Take { names, ttl_ms: TTL_MS })).await?;
        let Event::Done { answer, .. } = taken else { return Some(()) };
        for (lock, fence) in answer.fences {
            let size = self.size(dice);
            let write = |part: &str| {
                let (lock, key) = (lock.clone(), format!("g{lock}"));
                call(&format!("{lock}{part}"), LockAct::Write { lock, fence, key, size })
            };
            self.call(write("w")).await?;
            // Now and then it forgets to give it back: its time ends it, or the next start of its agent.
            if dice.percent(80) {
                self.call(call(&format!("{lock}g"), LockAct::Give { lock: lock.clone(), fence })).await?;
            }
            // It goes on writing, though somebody else may have the lock by now.
            self.call(write("x")).await?;
        }
        Some(())
    }
}
