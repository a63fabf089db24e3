//! A small language for tests: what happens, and what came of it, in words.
//!
//! ```text
//! alice sends m1 to bob high tries 2; bob claims; +31s; bob claims; bob acks m1 & puts plan=1 expecting 0; restart
//! ```
//!
//! Statements are separated by `;`. One that begins with a name (or `hub`) is a commit; `&` joins operations of one commit
//! and `with key K` makes it repeatable. `old bob` acts under the epoch before bob's last start. alice, bob and carol
//! exist from the start; `operator`, `admin`, `viewer`, `approver` and `moderator` hold a token. `m1` is the newest lease of that message, `m1#1` its first, `m1/carol` carol's delivery of it.
//!
//! | who | does |
//! |---|---|
//! | agents | `sends M to A,B [low high urgent] [rank N] [after T] [expires T] [tries N] [id X] [saying W] [as A] [in S]` |
//! | | and `[chain C] [upon M] [hops N] [on BUDGET]` of a message; `budgets B to N` |
//! | | also to `topic:T`, `*`, `role:R`, `can:C`; `answering`, `sure 0.5`, `reason W`, `written text/plain` |
//! | | `claims [N] [for T]`, `waits [N] as C`, `stands N as C`, `grants N to C`, `closes C` |
//! | | `acks M` or `acks M,M`, `retries M [after T] [because W]`, `releases M`, `drops M [because W]`, `extends M to T` |
//! | | `puts K=V [expecting N] [on K]`, `deletes K [expecting N]`, `starts [as ROLE] [able C,C] [twice]`, `leaves`, `purges` |
//! | | `locks X,Y [for T] [capacity N] [low high urgent] [within M] [as C]`, `renews X,Y`, `unlocks X,Y`; `puts … under X` |
//! | | `opens S [with A,B] [led A] [on TITLE] [for TASK]` (`-` for an id of the hub's making), `adds KIND to S [saying W]` |
//! | | `admits A to S`, `dismisses A from S`, `pauses S`, `resumes S`, `completes S`, `fails S`, each `[because W]` |
//! | | `makes T of TYPE [for A] [needs T,T] [priority N] [tries N] [backoff T] [timeout T] [lease T] [skipping waiting] [tells A] [saying W] [in S]` |
//! | | and further tasks of the same operation after `+`; `takes [N] [on TYPE,TYPE] [for T]`, `awaits [N] … as C`, `serves N … as C` |
//! | | `beats T [with W]`, `finishes T [with W] [partly] [sure N] [because W]`, `flunks T [hopelessly] [leaving W] [because W]` |
//! | | `needs T [within M] as C`, `returns T`, `cancels T [because W]`, `can WORD,WORD`, `leads` |
//! | | `snapshots NAME [of PREFIX]`, `forgets NAME`, `restores K to vN`, `#SEQ`, `T` or NAME, or `restores PREFIX* to …` |
//! | | `subscribes P [last N | from #SEQ]`, `unsubscribes P` |
//! | | `asks Q to A,B [query] [within T] [told C] [again Q]` and what is said of a message, `answers Q`, `rejoins Q told C`, `withdraws Q` |
//! | | `sends … [doing ACTION] [else redirect]`, `pulses [STATUS] [degraded W]`, `starts [again] … [beating T] [does X,Y]` |
//! | | `proposes A [saying W] [within T] [default W] [then B,B]`; `approver approves A`, `rejects A`, `modifies A to W`, each `[of W] [because W]` |
//! | hub | all of it, and `sweeps`, `hears A,B`, `redrives M`, `purges A`, `removes A`, `erases M` or `erases K vN`, `claims N of A` |
//! | | `registers A [as ROLE] [able C,C]`, `brings M,M to A of P wanting last N [until #SEQ] [by A]` |
//! | | `creates T for A`, `creates T as ROLE`, each `[until T] [showing T]`, `revokes T`
//! | | `sets mesh|supervised [bytes N] [chars N] [broadcasts N] [asking structured,confidence,rationale]` |
//!
//! Time: `+31s` moves both clocks and lets time do its work, `quietly +31s` does not; `wall +1d` and `wall -1d` jump the
//! wall clock only. Looking: `read K [at vN | at #SEQ | at T]`, `history K`, `list [PREFIX]`, `where M`, `text M`, `dead`, `counts`,
//! `locks`, `budget B`, `subscriptions`. A lock stands for its newest fence, `X@3` for fence 3.
//! `agents [can X] [does X] [being STATUS]`, `inbox A`, `request Q`, `why M`.
//! `session S`, `timeline S [KIND] [after #SEQ | before #SEQ]` (three records at a time).
//! `approval A`. `task T`, `tasks`. `tokens`, `door T`: what whoever shows the secret of T is told.
//! `in team` goes to another space; `restart` closes the store and opens it again. `silently` before a statement leaves
//! out what it would tell.

mod approvals;
mod asked;
mod cast;
mod locks;
mod requests;
mod rollback;
mod sessions;
mod stage;
mod tasks;
mod tokens;
mod told;

use stage::Stage;

/// Plays a script on a fresh store and tells what happened, line by line.
///
/// # Panics
/// When the script is not in the language, or the storage fails.
#[must_use]
pub fn play(script: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made");
    runtime.block_on(async {
        let mut stage = Stage::new().await;
        for statement in script.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
            match statement.strip_prefix("silently ") {
                Some(statement) => stage.play_silently(statement).await,
                None => stage.play(statement).await,
            }
        }
        stage.told()
    })
}
