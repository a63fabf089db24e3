//! What a review looks for beside the types of CUAD: provisions as they should be.

use serde::{Deserialize, Serialize};

use super::home::Home;

/// A provision as it should be. Where it is left out or turned round, that is a [`super::Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Provision {
    /// What is done for the customer.
    Services,
    /// When invoices are due, and the yearly fee.
    PaymentTerms,
    /// Interest on what is overdue, within bounds.
    LateFee,
    /// Both sides keep secrets.
    Confidentiality,
    /// Each side steps in for the other.
    Indemnity,
    /// Personal data of people in the European Union, with the terms that Article 28 of the GDPR asks for.
    EuData,
    /// What holds when such data leave the European Economic Area.
    TransferTerms,
    /// Personal information of Californians, with the terms of a service provider under the CCPA.
    CaliforniaData,
    /// Health information under a business associate agreement.
    HealthData,
    /// The customer hears of a breach within hours.
    BreachNotice,
    /// The customer owns its data.
    CustomerData,
    /// Changes need both signatures.
    Amendment,
    /// Services are done with skill.
    Warranty,
    /// Either side may end it after a material breach.
    TerminationForCause,
    /// What the customer may spend in a year.
    Budget,
    /// The customer tests, then accepts in writing.
    Acceptance,
    /// Expenses within bounds.
    Expenses,
    /// Names are used with consent only.
    Publicity,
    /// Suspension only after notice.
    Suspension,
}

impl Provision {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Services,
        Self::PaymentTerms,
        Self::LateFee,
        Self::Confidentiality,
        Self::Indemnity,
        Self::EuData,
        Self::TransferTerms,
        Self::CaliforniaData,
        Self::HealthData,
        Self::BreachNotice,
        Self::CustomerData,
        Self::Amendment,
        Self::Warranty,
        Self::TerminationForCause,
        Self::Budget,
        Self::Acceptance,
        Self::Expenses,
        Self::Publicity,
        Self::Suspension,
    ];

    /// As the data files write it.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Where it stands.
    pub fn home(self) -> Home {
        self.row().1
    }

    /// In how many of a hundred contracts it is wanted.
    pub(super) fn percent(self) -> u32 {
        self.row().2
    }

    fn row(self) -> (&'static str, Home, u32) {
        match self {
            Self::Services => ("services", Home::Services, 100),
            Self::PaymentTerms => ("payment_terms", Home::Fees, 100),
            Self::LateFee => ("late_fee", Home::Fees, 70),
            Self::Confidentiality => ("confidentiality", Home::Confidentiality, 100),
            Self::Indemnity => ("indemnity", Home::Indemnity, 80),
            Self::EuData => ("eu_data", Home::Data, 35),
            Self::TransferTerms => ("transfer_terms", Home::Data, 60),
            Self::CaliforniaData => ("california_data", Home::Data, 30),
            Self::HealthData => ("health_data", Home::Data, 25),
            Self::BreachNotice => ("breach_notice", Home::Data, 50),
            Self::CustomerData => ("customer_data", Home::Data, 60),
            Self::Amendment => ("amendment", Home::General, 90),
            Self::Warranty => ("warranty", Home::Warranties, 75),
            Self::TerminationForCause => ("termination_for_cause", Home::Term, 100),
            Self::Budget => ("budget", Home::Schedule, 35),
            Self::Acceptance => ("acceptance", Home::Services, 50),
            Self::Expenses => ("expenses", Home::Fees, 40),
            Self::Publicity => ("publicity", Home::General, 40),
            Self::Suspension => ("suspension", Home::Services, 30),
        }
    }
}
