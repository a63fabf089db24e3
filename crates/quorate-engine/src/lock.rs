//! Locks as callers see them: ask and wait, look.

use std::time::Duration;

use quorate_core::{
    AcquireLocks, Code, Commit, ConsumerId, Epoch, FenceRef, LockName, Locked, Op, OpResult, Principal,
    Refused, Told, Waiting,
};
use quorate_store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::error::Error;
use crate::post::Mail;
use crate::space::Space;

impl Space {
    /// Takes locks, all of them or none; waits for them, but not longer than this. How the request itself says that it
    /// waits is not looked at.
    ///
    /// # Errors
    /// `TIMEOUT` if they could not be had in time, `DEADLOCK` if they never could, another refusal, or a failure of the
    /// storage. Nothing is held then.
    pub async fn lock(
        &self,
        principal: &Principal,
        epoch: Option<Epoch>,
        ask: AcquireLocks,
        wait: Duration,
    ) -> Result<Locked, Error> {
        let (id, mail) = self.post().wait(self.number());
        let waiting = if wait.is_zero() { Waiting::No } else { Waiting::Once(id) };
        let mut place = Place { space: self.clone(), id, mail: Some(mail), waits: !wait.is_zero() };
        let name = ask.names.first().cloned();
        let op = Op::AcquireLocks(AcquireLocks { waiting, ..ask });
        let receipt = self.commit(Commit { epoch, ..Commit::new(principal.clone(), vec![op]) }).await?;
        match receipt.results.into_iter().next() {
            Some(OpResult::Locked(locked)) => {
                place.waits = false;
                Ok(locked)
            }
            Some(OpResult::InLine) => place.wait(wait, name).await,
            _ => Err(StoreError::Read("a lock was not answered".into()).into()),
        }
    }
}

/// A place in line. The caller may go away at any point: then nothing stays behind, neither the place nor a lock.
struct Place {
    space: Space,
    id: ConsumerId,
    mail: Option<UnboundedReceiver<Mail>>,
    /// Whether the head may count on it.
    waits: bool,
}

impl Place {
    async fn wait(mut self, wait: Duration, name: Option<LockName>) -> Result<Locked, Error> {
        let space = self.space.clone();
        let Some(mail) = &mut self.mail else { return Err(StoreError::Closed.into()) };
        let (mut came, in_time) = tokio::select! {
            came = mail.recv() => (came, true),
            () = space.pass(wait) => (None, false),
        };
        if came.is_none() {
            // What was given before the wait ended lies in the mailbox by the time this is answered.
            space.commit_system(vec![Op::Close { consumer: self.id }]).await?;
            came = mail.try_recv().ok();
        }
        self.waits = false;
        match came {
            Some(Mail::Told(Told::Locked(locked))) => Ok(locked),
            Some(Mail::Told(Told::Refused(refused))) => Err(refused.into()),
            Some(_) => Err(StoreError::Read("a lock was not answered".into()).into()),
            None if in_time => Err(Refused::new(Code::StaleEpoch, "the agent was started again or removed")
                .hint("this start of the agent is over; it waits for nothing any more")
                .into()),
            None => {
                let name = name.map_or(String::new(), |name| format!(" {name}"));
                Err(Refused::new(Code::Timeout, format!("the lock{name} was not free in time"))
                    .hint("ask again, or wait for it longer; you hold none of the locks")
                    .into())
            }
        }
    }
}

impl Space {
    /// Releases locks that nobody waits for any more.
    pub(crate) async fn release_unwanted(&self, locks: Vec<FenceRef>) {
        if let Err(error) = self.commit_system(vec![Op::ReleaseLocks(locks)]).await {
            let (space, code) = (self.number().0, error.code().as_str());
            tracing::warn!(space, code, "locks were not released; they expire");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (space, id) = (self.space.clone(), self.id);
        let Some(mut mail) = self.mail.take().filter(|_| self.waits) else { return space.post().close(id) };
        let Ok(handle) = Handle::try_current() else {
            space.post().close(id);
            return space.forget_consumer(id);
        };
        handle.spawn(async move {
            let closed = space.commit_system(vec![Op::Close { consumer: id }]).await;
            space.post().close(id);
            // What was given in the meantime is given back: whoever asked is not there to do it. If that cannot be
            // written, the hold ends with its time.
            while let (Ok(_), Ok(Mail::Told(told))) = (&closed, mail.try_recv()) {
                if let Told::Locked(locked) = told {
                    space.release_unwanted(locked.locks).await;
                }
            }
        });
    }
}
