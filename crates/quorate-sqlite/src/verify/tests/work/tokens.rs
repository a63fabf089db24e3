//! Access tokens: one of an agent, one per role, a revoked one, an expired one, and one of a removed agent.

use quorate_core::{
    Bearer, CreateToken, Op, OpResult, Principal, RegisterAgent, Timestamp, TokenDigest, TokenRole,
};
use quorate_store::Clock as _;

use super::{Hub, agent};

/// Digest of the secret of the agent's token.
pub(crate) const DIGEST: [u8; 32] = [0x11; 32];

fn create(secret: u8, bearer: Bearer, expires_at: Option<Timestamp>) -> Op {
    let name = "laptop".parse().unwrap();
    Op::CreateToken(CreateToken { digest: TokenDigest([secret; 32]), bearer, name, expires_at })
}

impl Hub {
    pub(super) fn tokens(&self) {
        let admin = || Principal::Holder { role: TokenRole::Admin, name: "anna".parse().unwrap() };
        let soon = Timestamp(self.clock.now().wall.0 + 1_000);
        let late = Timestamp(self.clock.now().wall.0 + 1_000_000);
        self.commit(admin(), vec![create(DIGEST[0], Bearer::Agent(agent("bob")), Some(late))]);
        for (secret, role) in (0x21..).zip(TokenRole::ALL) {
            self.commit(admin(), vec![create(secret, Bearer::Holder(*role), None)]);
        }
        let viewer = || Bearer::Holder(TokenRole::Viewer);
        let made =
            self.commit(admin(), vec![create(0x31, viewer(), None), create(0x32, viewer(), Some(soon))]);
        let OpResult::TokenCreated { id, .. } = made.results[0] else { panic!("{made:?}") };
        self.commit(Principal::System, vec![Op::RevokeToken { token: id }]);
        self.pass(1_000);
        self.commit(Principal::System, vec![Op::Sweep]);
        let eve = RegisterAgent::named(agent("eve"));
        let ops = vec![Op::RegisterAgent(eve), create(0x33, Bearer::Agent(agent("eve")), None)];
        self.commit(admin(), ops);
        self.commit(admin(), vec![Op::RemoveAgent { agent: agent("eve") }]);
    }
}
