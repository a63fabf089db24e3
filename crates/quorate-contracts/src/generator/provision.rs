//! Provisions that a review checks in addition to the types of CUAD, as they should be.

use serde::{Deserialize, Serialize};

use super::section::Section;

/// A provision as it should be. If it is missing or reversed, that is a [`super::Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Provision {
    /// The services for the customer.
    Services,
    /// Due dates of invoices, and the annual fee.
    PaymentTerms,
    /// Interest on overdue amounts, within bounds.
    LateFee,
    /// Mutual confidentiality.
    Confidentiality,
    /// Mutual indemnity.
    Indemnity,
    /// Personal data of people in the European Union, with the terms required by Article 28 GDPR.
    EuData,
    /// Safeguards for transfers of such data outside the European Economic Area.
    TransferTerms,
    /// Personal information of Californians, with service provider terms under the CCPA.
    CaliforniaData,
    /// Health information under a business associate agreement.
    HealthData,
    /// Notice of a breach within hours.
    BreachNotice,
    /// The customer owns its data.
    CustomerData,
    /// Changes need both signatures.
    Amendment,
    /// Professional performance is warranted.
    Warranty,
    /// Either party may terminate after a material breach.
    TerminationForCause,
    /// Annual budget of the customer.
    Budget,
    /// Acceptance in writing after a test.
    Acceptance,
    /// Expenses within bounds.
    Expenses,
    /// Names are used with consent only.
    Publicity,
    /// Suspension only after notice.
    Suspension,
}

impl Provision {
    /// All provisions.
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

    /// Name in the data files.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Section of the contract that contains it.
    pub fn section(self) -> Section {
        self.row().1
    }

    /// Percentage of contracts that contain it.
    pub(super) fn frequency_percent(self) -> u32 {
        self.row().2
    }

    fn row(self) -> (&'static str, Section, u32) {
        match self {
            Self::Services => ("services", Section::Services, 100),
            Self::PaymentTerms => ("payment_terms", Section::Fees, 100),
            Self::LateFee => ("late_fee", Section::Fees, 70),
            Self::Confidentiality => ("confidentiality", Section::Confidentiality, 100),
            Self::Indemnity => ("indemnity", Section::Indemnity, 80),
            Self::EuData => ("eu_data", Section::Data, 35),
            Self::TransferTerms => ("transfer_terms", Section::Data, 60),
            Self::CaliforniaData => ("california_data", Section::Data, 30),
            Self::HealthData => ("health_data", Section::Data, 25),
            Self::BreachNotice => ("breach_notice", Section::Data, 50),
            Self::CustomerData => ("customer_data", Section::Data, 60),
            Self::Amendment => ("amendment", Section::General, 90),
            Self::Warranty => ("warranty", Section::Warranties, 75),
            Self::TerminationForCause => ("termination_for_cause", Section::Term, 100),
            Self::Budget => ("budget", Section::Schedule, 35),
            Self::Acceptance => ("acceptance", Section::Services, 50),
            Self::Expenses => ("expenses", Section::Fees, 40),
            Self::Publicity => ("publicity", Section::General, 40),
            Self::Suspension => ("suspension", Section::Services, 30),
        }
    }
}
