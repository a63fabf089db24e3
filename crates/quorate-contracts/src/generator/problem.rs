//! The problems that can be planted in a contract, seen from the customer's side.

use serde::{Deserialize, Serialize};

use super::clause::Clause;
use super::home::Home;
use super::provision::Provision;

/// How bad a problem is for the customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A nuisance.
    Low,
    /// Worth a sentence in the next draft.
    Medium,
    /// Worth a negotiation.
    High,
    /// Worth walking away for, if another comes with it.
    Critical,
}

/// A problem that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// The customer pays without limit, the vendor does not.
    UncappedCustomerLiability,
    /// The vendor pays next to nothing: at most a month of fees.
    TrivialVendorCap,
    /// Only the customer indemnifies, also for the vendor's faults.
    OneSidedIndemnity,
    /// It renews by itself, and notice is due 90 days or more ahead.
    LongRenewalNotice,
    /// The vendor becomes owner of the results and of the customer's data.
    IpToVendor,
    /// Personal data of people in the European Union, and no terms of processing.
    MissingDataProcessing,
    /// Such data go to a third country without safeguards.
    MissingTransferTerms,
    /// Health information of patients without a business associate agreement.
    PhiWithoutBaa,
    /// The vendor may sell personal information of Californians.
    CcpaSale,
    /// More than 1.5 % a month on what is overdue.
    ExcessiveLateFee,
    /// Body and schedule give different payment terms.
    PaymentConflict,
    /// Body and schedule give different caps on liability.
    CapConflict,
    /// The customer must buy for more than it may spend.
    MinimumOverBudget,
    /// The vendor raises prices as it likes.
    UnlimitedPriceIncrease,
    /// The vendor may leave at any time, the customer may not.
    TerminationAsymmetry,
    /// Body and schedule choose different laws.
    GoverningLawMismatch,
    /// Nobody has to keep anything secret.
    MissingConfidentiality,
    /// The vendor changes the agreement alone.
    UnilateralAmendment,
    /// Nothing is promised of the quality.
    NoWarranty,
    /// The customer must not compete with the vendor.
    CustomerNoncompete,
    /// The customer must buy from the vendor alone.
    CustomerExclusivity,
    /// The vendor exploits the customer's data for itself.
    TrainingUse,
    /// The customer hears of a breach after 30 days or more, or never.
    SlowBreachNotice,
    /// The vendor may pass the agreement to anybody.
    FreeAssignment,
    /// Leaving early costs the customer the rest of the term.
    EarlyTerminationPenalty,
    /// The vendor searches the customer as it likes, at the customer's cost.
    IntrusiveAudit,
    /// Money paid ahead is lost whatever happens.
    NonrefundablePrepayment,
    /// The customer's claims end after 30 days or less.
    ShortClaimPeriod,
    /// The vendor advertises with the customer's name.
    PublicityWithoutConsent,
    /// The vendor stops the services without notice.
    SuspensionWithoutNotice,
    /// The customer pays any expense.
    UnboundedExpenses,
    /// Body and schedule give different ends.
    TermConflict,
    /// Silence for a few days is acceptance.
    DeemedAcceptance,
}

struct Row {
    problem: Problem,
    name: &'static str,
    severity: Severity,
    home: Home,
    /// What it stands in the place of: not in the same contract.
    instead_of: (&'static [Clause], &'static [Provision]),
}

/// In the order of the variants; a test holds this.
const ROWS: [Row; 33] = [
    Row {
        problem: Problem::UncappedCustomerLiability,
        name: "uncapped_customer_liability",
        severity: Severity::Critical,
        home: Home::Liability,
        instead_of: (&[Clause::UncappedLiability], &[]),
    },
    Row {
        problem: Problem::TrivialVendorCap,
        name: "trivial_vendor_cap",
        severity: Severity::High,
        home: Home::Liability,
        instead_of: (&[Clause::CapOnLiability], &[]),
    },
    Row {
        problem: Problem::OneSidedIndemnity,
        name: "one_sided_indemnity",
        severity: Severity::High,
        home: Home::Indemnity,
        instead_of: (&[], &[Provision::Indemnity]),
    },
    Row {
        problem: Problem::LongRenewalNotice,
        name: "long_renewal_notice",
        severity: Severity::Medium,
        home: Home::Term,
        instead_of: (&[Clause::RenewalTerm, Clause::NoticePeriodToTerminateRenewal], &[]),
    },
    Row {
        problem: Problem::IpToVendor,
        name: "ip_to_vendor",
        severity: Severity::Critical,
        home: Home::Ip,
        instead_of: (&[Clause::IpOwnershipAssignment, Clause::JointIpOwnership], &[Provision::CustomerData]),
    },
    Row {
        problem: Problem::MissingDataProcessing,
        name: "missing_data_processing",
        severity: Severity::Critical,
        home: Home::Data,
        instead_of: (&[], &[Provision::EuData, Provision::TransferTerms]),
    },
    Row {
        problem: Problem::MissingTransferTerms,
        name: "missing_transfer_terms",
        severity: Severity::High,
        home: Home::Data,
        instead_of: (&[], &[Provision::TransferTerms]),
    },
    Row {
        problem: Problem::PhiWithoutBaa,
        name: "phi_without_baa",
        severity: Severity::Critical,
        home: Home::Data,
        instead_of: (&[], &[Provision::HealthData]),
    },
    Row {
        problem: Problem::CcpaSale,
        name: "ccpa_sale",
        severity: Severity::High,
        home: Home::Data,
        instead_of: (&[], &[Provision::CaliforniaData]),
    },
    Row {
        problem: Problem::ExcessiveLateFee,
        name: "excessive_late_fee",
        severity: Severity::Medium,
        home: Home::Fees,
        instead_of: (&[], &[Provision::LateFee]),
    },
    Row {
        problem: Problem::PaymentConflict,
        name: "payment_conflict",
        severity: Severity::Medium,
        home: Home::Fees,
        instead_of: (&[], &[Provision::PaymentTerms]),
    },
    Row {
        problem: Problem::CapConflict,
        name: "cap_conflict",
        severity: Severity::High,
        home: Home::Liability,
        instead_of: (&[Clause::CapOnLiability], &[]),
    },
    Row {
        problem: Problem::MinimumOverBudget,
        name: "minimum_over_budget",
        severity: Severity::High,
        home: Home::Fees,
        instead_of: (&[Clause::MinimumCommitment], &[Provision::Budget]),
    },
    Row {
        problem: Problem::UnlimitedPriceIncrease,
        name: "unlimited_price_increase",
        severity: Severity::High,
        home: Home::Fees,
        instead_of: (&[Clause::PriceRestrictions], &[]),
    },
    Row {
        problem: Problem::TerminationAsymmetry,
        name: "termination_asymmetry",
        severity: Severity::High,
        home: Home::Term,
        instead_of: (&[Clause::TerminationForConvenience], &[Provision::TerminationForCause]),
    },
    Row {
        problem: Problem::GoverningLawMismatch,
        name: "governing_law_mismatch",
        severity: Severity::Medium,
        home: Home::General,
        instead_of: (&[Clause::GoverningLaw], &[]),
    },
    Row {
        problem: Problem::MissingConfidentiality,
        name: "missing_confidentiality",
        severity: Severity::High,
        home: Home::Confidentiality,
        instead_of: (&[], &[Provision::Confidentiality]),
    },
    Row {
        problem: Problem::UnilateralAmendment,
        name: "unilateral_amendment",
        severity: Severity::High,
        home: Home::General,
        instead_of: (&[], &[Provision::Amendment]),
    },
    Row {
        problem: Problem::NoWarranty,
        name: "no_warranty",
        severity: Severity::Medium,
        home: Home::Warranties,
        instead_of: (&[Clause::WarrantyDuration], &[Provision::Warranty]),
    },
    Row {
        problem: Problem::CustomerNoncompete,
        name: "customer_noncompete",
        severity: Severity::High,
        home: Home::Covenants,
        instead_of: (&[Clause::NonCompete, Clause::CompetitiveRestrictionException], &[]),
    },
    Row {
        problem: Problem::CustomerExclusivity,
        name: "customer_exclusivity",
        severity: Severity::Medium,
        home: Home::Covenants,
        instead_of: (&[Clause::Exclusivity], &[]),
    },
    Row {
        problem: Problem::TrainingUse,
        name: "training_use",
        severity: Severity::High,
        home: Home::Data,
        instead_of: (&[], &[Provision::CustomerData]),
    },
    Row {
        problem: Problem::SlowBreachNotice,
        name: "slow_breach_notice",
        severity: Severity::Medium,
        home: Home::Data,
        instead_of: (&[], &[Provision::BreachNotice]),
    },
    Row {
        problem: Problem::FreeAssignment,
        name: "free_assignment",
        severity: Severity::Medium,
        home: Home::General,
        instead_of: (&[Clause::AntiAssignment], &[]),
    },
    Row {
        problem: Problem::EarlyTerminationPenalty,
        name: "early_termination_penalty",
        severity: Severity::High,
        home: Home::Liability,
        instead_of: (&[Clause::LiquidatedDamages], &[]),
    },
    Row {
        problem: Problem::IntrusiveAudit,
        name: "intrusive_audit",
        severity: Severity::Medium,
        home: Home::Fees,
        instead_of: (&[Clause::AuditRights], &[]),
    },
    Row {
        problem: Problem::NonrefundablePrepayment,
        name: "nonrefundable_prepayment",
        severity: Severity::Medium,
        home: Home::Fees,
        instead_of: (&[], &[]),
    },
    Row {
        problem: Problem::ShortClaimPeriod,
        name: "short_claim_period",
        severity: Severity::Low,
        home: Home::Liability,
        instead_of: (&[], &[]),
    },
    Row {
        problem: Problem::PublicityWithoutConsent,
        name: "publicity_without_consent",
        severity: Severity::Low,
        home: Home::General,
        instead_of: (&[], &[Provision::Publicity]),
    },
    Row {
        problem: Problem::SuspensionWithoutNotice,
        name: "suspension_without_notice",
        severity: Severity::Medium,
        home: Home::Services,
        instead_of: (&[], &[Provision::Suspension]),
    },
    Row {
        problem: Problem::UnboundedExpenses,
        name: "unbounded_expenses",
        severity: Severity::Low,
        home: Home::Fees,
        instead_of: (&[], &[Provision::Expenses]),
    },
    Row {
        problem: Problem::TermConflict,
        name: "term_conflict",
        severity: Severity::Low,
        home: Home::Term,
        instead_of: (&[Clause::ExpirationDate], &[]),
    },
    Row {
        problem: Problem::DeemedAcceptance,
        name: "deemed_acceptance",
        severity: Severity::Low,
        home: Home::Services,
        instead_of: (&[], &[Provision::Acceptance]),
    },
];

impl Problem {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.problem)
    }

    /// As the data files write it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// How bad it is.
    pub fn severity(self) -> Severity {
        self.row().severity
    }

    /// Where it stands.
    pub fn home(self) -> Home {
        self.row().home
    }

    /// Whether it is planted by leaving something out, so that it has no phrasing.
    pub fn is_absence(self) -> bool {
        self == Self::MissingConfidentiality
    }

    /// Whether it needs two places that contradict each other.
    pub fn is_contradiction(self) -> bool {
        matches!(
            self,
            Self::PaymentConflict
                | Self::CapConflict
                | Self::MinimumOverBudget
                | Self::GoverningLawMismatch
                | Self::TermConflict
        )
    }

    pub(super) fn replaces_clause(self, clause: Clause) -> bool {
        self.row().instead_of.0.contains(&clause)
    }

    pub(super) fn replaces_provision(self, provision: Provision) -> bool {
        self.row().instead_of.1.contains(&provision)
    }

    /// Whether both stand in the place of the same thing, and so cannot be planted together.
    pub(super) fn excludes(self, other: Self) -> bool {
        let (clauses, provisions) = self.row().instead_of;
        clauses.iter().any(|clause| other.replaces_clause(*clause))
            || provisions.iter().any(|provision| other.replaces_provision(*provision))
    }

    /// The provision without which it makes no sense.
    pub(super) fn needs(self) -> Option<Provision> {
        (self == Self::MissingTransferTerms).then_some(Provision::EuData)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_in_its_row_under_its_name() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.problem as usize, index, "{}", row.name);
            assert_eq!(serde_json::to_value(row.problem).unwrap(), row.name);
        }
    }
}
