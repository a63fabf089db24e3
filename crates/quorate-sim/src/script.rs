//! A small language for tests: a script lists statements, the runner executes them and renders their effects as text.
//!
//! ```text
//! alice sends m1 to bob high tries 2; bob claims; +31s; bob claims; bob acks m1 & puts plan=1 expecting 0; restart
//! ```
//!
//! Statements are separated by `;`. A statement that starts with a principal (or `hub`) is a commit; `&` joins several
//! operations in one commit, `with key K` adds an idempotency key. `old bob` acts with the epoch before bob's last
//! registration, `bob holding T` with the access token T (otherwise with none, so that no grants apply). alice, bob and
//! carol are registered initially; `operator`, `admin`, `viewer`, `approver` and `moderator` are holders of an access
//! token. `m1` refers to the newest lease of that message, `m1#1` to its first lease, `m1/carol` to carol's delivery of
//! it.
//!
//! | principal | operations |
//! |---|---|
//! | agents | `sends M to A,B [low high urgent] [rank N] [after T] [expires T] [tries N] [id X] [saying W] [as A] [in S]` |
//! | | further options of a message: `[chain C] [upon M] [hops N] [limit N] [on BUDGET]`; `budgets B to N` |
//! | | destinations may also be `topic:T`, `*`, `role:R`, `can:C`; `answering`, `failing`, `sure 0.5`, `reason W`, `written text/plain` |
//! | | `claims [N] [for T]`, `waits [N] as C`, `stands N as C`, `grants N to C`, `closes C` |
//! | | `acks M` or `acks M,M`, `retries M [after T | later] [because W]`, `releases M`, `drops M [because W]`, `extends M to T` |
//! | | `puts K=V [expecting N] [on K]`, `deletes K [expecting N]`, `starts [as ROLE] [able C,C] [twice]`, `leaves`, `purges` |
//! | | `locks X,Y [for T] [capacity N] [low high urgent] [within M] [as C]`, `renews X,Y`, `unlocks X,Y`; `puts … under X` |
//! | | `opens S [with A,B] [led A] [on TITLE] [for TASK]` (`-`: the hub generates the id), `adds KIND to S [saying W]` |
//! | | `admits A to S`, `dismisses A from S`, `pauses S`, `resumes S`, `completes S`, `fails S`, each `[because W]` |
//! | | `makes T of TYPE [for A] [needs T,T] [priority N] [tries N] [backoff T] [timeout T] [lease T] [skipping waiting] [escalating A] [saying W] [in S]` |
//! | | `+` separates several tasks of one operation; `takes [N] [on TYPE,TYPE] [for T]`, `awaits [N] … as C`, `serves N … as C` |
//! | | `beats T [with W]`, `finishes T [with W] [partly] [sure N] [because W]`, `flunks T [permanently] [leaving W] [because W]` |
//! | | `needs T [within M] as C`, `returns T`, `cancels T [because W]`, `can WORD,WORD`, `leads` |
//! | | `snapshots NAME [of PREFIX]`, `forgets NAME`, `restores K to vN`, `#SEQ`, `T` or NAME, or `restores PREFIX* to …` |
//! | | `subscribes P [last N | from #SEQ]`, `unsubscribes P` |
//! | | `asks Q to A,B [query] [only] [within T] [notifying C] [again Q]` and message options, `answers Q`, `rejoins Q notifying C`, `withdraws Q` |
//! | | `sends … [doing ACTION] [else redirect]`, `heartbeats [STATUS] [degraded W]`, `starts [again] … [beating T] [does X,Y]` |
//! | | `proposes A [saying W] [within T] [default W] [then B,B]`; `approver approves A`, `rejects A`, `modifies A to W`, each `[of W] [because W]` |
//! | hub | all of the above, and `sweeps`, `relays A,B` (a batch of heartbeats), `disconnects A`, `redrives M`, `purges A`, `removes A`, `erases M` or `erases K vN`, `claims N of A` |
//! | | `registers A [as ROLE] [able C,C]`, `backfills M,M to A of P wanting last N [until #SEQ] [by A]` |
//! | | `creates T for A`, `creates T as ROLE`, each `[until T] [secret T] [granting ROLE,ROLE] [able C,C]` (`all`: everything), `revokes T` |
//! | | `sets mesh|supervised [bytes N] [chars N] [broadcasts N] [asking structured,confidence,rationale]` |
//!
//! Time: `+31s` advances both clocks and runs the sweeps that fall due, `quietly +31s` only advances them; `wall +1d`
//! and `wall -1d` move the wall clock only.
//!
//! Queries:
//!
//! - `read K [at vN | at #SEQ | at T]`, `history K`, `list [PREFIX]`
//! - `where M`, `text M`, `why M`, `why task T`, `inbox A`, `dead`, `counts`
//! - `request Q`, `approval A`, `task T`, `tasks`, `locks`, `queue X`, `stuck`, `budget B`, `subscriptions`
//! - `agents [can X] [does X] [being STATUS]`
//! - `session S`, `timeline S [KIND] [after #SEQ | before #SEQ]` (three records per page)
//! - `tokens`, `authenticate T` (presents the secret of token T)
//!
//! A lock name refers to its newest fence, `X@3` to fence 3. `in team` switches to another space; `restart` closes and
//! reopens the store. `silently` before a statement suppresses its output.

mod approvals;
mod locks;
mod names;
mod parse;
mod render;
mod requests;
mod rollback;
mod runner;
mod sessions;
mod tasks;
mod tokens;

use runner::ScriptRunner;

/// Runs a script on a new store and returns the rendered output, one line per effect or result.
///
/// # Panics
/// If the script does not parse, or the storage fails.
#[must_use]
pub fn run(script: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime builds");
    runtime.block_on(async {
        let mut runner = ScriptRunner::new().await;
        for statement in script.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
            match statement.strip_prefix("silently ") {
                Some(statement) => runner.run_silently(statement).await,
                None => runner.run(statement).await,
            }
        }
        runner.into_output()
    })
}
