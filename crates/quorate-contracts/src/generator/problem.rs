//! Problems that can be planted in a contract, from the customer's perspective.

use serde::{Deserialize, Serialize};

use super::clause::Clause;
use super::provision::Provision;
use super::section::Section;

/// Severity of a problem for the customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A nuisance.
    Low,
    /// Worth a comment in the next draft.
    Medium,
    /// Worth a negotiation.
    High,
    /// A reason not to sign, in combination with another.
    Critical,
}

/// A problem that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// The customer's liability is unlimited, the vendor's is not.
    UncappedCustomerLiability,
    /// The vendor's liability is capped at a month of fees or less.
    TrivialVendorCap,
    /// Only the customer indemnifies, even for the vendor's faults.
    OneSidedIndemnity,
    /// Automatic renewal with a notice period of 90 days or more.
    LongRenewalNotice,
    /// The vendor owns the results and the customer's data.
    IpToVendor,
    /// Personal data of people in the European Union without processing terms.
    MissingDataProcessing,
    /// Transfer of such data to a third country without safeguards.
    MissingTransferTerms,
    /// Health information of patients without a business associate agreement.
    PhiWithoutBaa,
    /// The vendor may sell personal information of Californians.
    CcpaSale,
    /// A late fee of more than 1.5 % per month.
    ExcessiveLateFee,
    /// Body and schedule give different payment terms.
    PaymentConflict,
    /// Body and schedule give different caps on liability.
    CapConflict,
    /// The minimum purchase exceeds the budget.
    MinimumOverBudget,
    /// The vendor may raise prices without limit.
    UnlimitedPriceIncrease,
    /// The vendor may terminate at any time, the customer may not.
    TerminationAsymmetry,
    /// Body and schedule choose different governing laws.
    GoverningLawMismatch,
    /// No confidentiality obligation.
    MissingConfidentiality,
    /// The vendor may amend the agreement alone.
    UnilateralAmendment,
    /// No warranty of quality.
    NoWarranty,
    /// The customer must not compete with the vendor.
    CustomerNoncompete,
    /// The customer must buy from the vendor only.
    CustomerExclusivity,
    /// The vendor may use the customer's data for its own purposes.
    TrainingUse,
    /// Notice of a breach after 30 days or more, or none.
    SlowBreachNotice,
    /// The vendor may assign the agreement to anyone.
    FreeAssignment,
    /// Early termination costs the customer the fees of the remaining term.
    EarlyTerminationPenalty,
    /// Unrestricted audits of the customer at the customer's cost.
    IntrusiveAudit,
    /// Prepayments are not refunded under any circumstances.
    NonrefundablePrepayment,
    /// Claims of the customer expire after 30 days or less.
    ShortClaimPeriod,
    /// The vendor may use the customer's name for publicity.
    PublicityWithoutConsent,
    /// The vendor may suspend the services without notice.
    SuspensionWithoutNotice,
    /// The customer pays expenses without limit.
    UnboundedExpenses,
    /// Body and schedule give different end dates.
    TermConflict,
    /// Silence for a few days counts as acceptance.
    DeemedAcceptance,
}

struct Row {
    problem: Problem,
    name: &'static str,
    severity: Severity,
    section: Section,
    /// Topics that it replaces: they must not be in the same contract.
    replaces: (&'static [Clause], &'static [Provision]),
}

/// In the order of the variants; verified by a test.
const ROWS: [Row; 33] = [
    Row {
        problem: Problem::UncappedCustomerLiability,
        name: "uncapped_customer_liability",
        severity: Severity::Critical,
        section: Section::Liability,
        replaces: (&[Clause::UncappedLiability], &[]),
    },
    Row {
        problem: Problem::TrivialVendorCap,
        name: "trivial_vendor_cap",
        severity: Severity::High,
        section: Section::Liability,
        replaces: (&[Clause::CapOnLiability], &[]),
    },
    Row {
        problem: Problem::OneSidedIndemnity,
        name: "one_sided_indemnity",
        severity: Severity::High,
        section: Section::Indemnity,
        replaces: (&[], &[Provision::Indemnity]),
    },
    Row {
        problem: Problem::LongRenewalNotice,
        name: "long_renewal_notice",
        severity: Severity::Medium,
        section: Section::Term,
        replaces: (&[Clause::RenewalTerm, Clause::NoticePeriodToTerminateRenewal], &[]),
    },
    Row {
        problem: Problem::IpToVendor,
        name: "ip_to_vendor",
        severity: Severity::Critical,
        section: Section::Ip,
        replaces: (&[Clause::IpOwnershipAssignment, Clause::JointIpOwnership], &[Provision::CustomerData]),
    },
    Row {
        problem: Problem::MissingDataProcessing,
        name: "missing_data_processing",
        severity: Severity::Critical,
        section: Section::Data,
        replaces: (&[], &[Provision::EuData, Provision::TransferTerms]),
    },
    Row {
        problem: Problem::MissingTransferTerms,
        name: "missing_transfer_terms",
        severity: Severity::High,
        section: Section::Data,
        replaces: (&[], &[Provision::TransferTerms]),
    },
    Row {
        problem: Problem::PhiWithoutBaa,
        name: "phi_without_baa",
        severity: Severity::Critical,
        section: Section::Data,
        replaces: (&[], &[Provision::HealthData]),
    },
    Row {
        problem: Problem::CcpaSale,
        name: "ccpa_sale",
        severity: Severity::High,
        section: Section::Data,
        replaces: (&[], &[Provision::CaliforniaData]),
    },
    Row {
        problem: Problem::ExcessiveLateFee,
        name: "excessive_late_fee",
        severity: Severity::Medium,
        section: Section::Fees,
        replaces: (&[], &[Provision::LateFee]),
    },
    Row {
        problem: Problem::PaymentConflict,
        name: "payment_conflict",
        severity: Severity::Medium,
        section: Section::Fees,
        replaces: (&[], &[Provision::PaymentTerms]),
    },
    Row {
        problem: Problem::CapConflict,
        name: "cap_conflict",
        severity: Severity::High,
        section: Section::Liability,
        replaces: (&[Clause::CapOnLiability], &[]),
    },
    Row {
        problem: Problem::MinimumOverBudget,
        name: "minimum_over_budget",
        severity: Severity::High,
        section: Section::Fees,
        replaces: (&[Clause::MinimumCommitment], &[Provision::Budget]),
    },
    Row {
        problem: Problem::UnlimitedPriceIncrease,
        name: "unlimited_price_increase",
        severity: Severity::High,
        section: Section::Fees,
        replaces: (&[Clause::PriceRestrictions], &[]),
    },
    Row {
        problem: Problem::TerminationAsymmetry,
        name: "termination_asymmetry",
        severity: Severity::High,
        section: Section::Term,
        replaces: (&[Clause::TerminationForConvenience], &[Provision::TerminationForCause]),
    },
    Row {
        problem: Problem::GoverningLawMismatch,
        name: "governing_law_mismatch",
        severity: Severity::Medium,
        section: Section::General,
        replaces: (&[Clause::GoverningLaw], &[]),
    },
    Row {
        problem: Problem::MissingConfidentiality,
        name: "missing_confidentiality",
        severity: Severity::High,
        section: Section::Confidentiality,
        replaces: (&[], &[Provision::Confidentiality]),
    },
    Row {
        problem: Problem::UnilateralAmendment,
        name: "unilateral_amendment",
        severity: Severity::High,
        section: Section::General,
        replaces: (&[], &[Provision::Amendment]),
    },
    Row {
        problem: Problem::NoWarranty,
        name: "no_warranty",
        severity: Severity::Medium,
        section: Section::Warranties,
        replaces: (&[Clause::WarrantyDuration], &[Provision::Warranty]),
    },
    Row {
        problem: Problem::CustomerNoncompete,
        name: "customer_noncompete",
        severity: Severity::High,
        section: Section::Covenants,
        replaces: (&[Clause::NonCompete, Clause::CompetitiveRestrictionException], &[]),
    },
    Row {
        problem: Problem::CustomerExclusivity,
        name: "customer_exclusivity",
        severity: Severity::Medium,
        section: Section::Covenants,
        replaces: (&[Clause::Exclusivity], &[]),
    },
    Row {
        problem: Problem::TrainingUse,
        name: "training_use",
        severity: Severity::High,
        section: Section::Data,
        replaces: (&[], &[Provision::CustomerData]),
    },
    Row {
        problem: Problem::SlowBreachNotice,
        name: "slow_breach_notice",
        severity: Severity::Medium,
        section: Section::Data,
        replaces: (&[], &[Provision::BreachNotice]),
    },
    Row {
        problem: Problem::FreeAssignment,
        name: "free_assignment",
        severity: Severity::Medium,
        section: Section::General,
        replaces: (&[Clause::AntiAssignment], &[]),
    },
    Row {
        problem: Problem::EarlyTerminationPenalty,
        name: "early_termination_penalty",
        severity: Severity::High,
        section: Section::Liability,
        replaces: (&[Clause::LiquidatedDamages], &[]),
    },
    Row {
        problem: Problem::IntrusiveAudit,
        name: "intrusive_audit",
        severity: Severity::Medium,
        section: Section::Fees,
        replaces: (&[Clause::AuditRights], &[]),
    },
    Row {
        problem: Problem::NonrefundablePrepayment,
        name: "nonrefundable_prepayment",
        severity: Severity::Medium,
        section: Section::Fees,
        replaces: (&[], &[]),
    },
    Row {
        problem: Problem::ShortClaimPeriod,
        name: "short_claim_period",
        severity: Severity::Low,
        section: Section::Liability,
        replaces: (&[], &[]),
    },
    Row {
        problem: Problem::PublicityWithoutConsent,
        name: "publicity_without_consent",
        severity: Severity::Low,
        section: Section::General,
        replaces: (&[], &[Provision::Publicity]),
    },
    Row {
        problem: Problem::SuspensionWithoutNotice,
        name: "suspension_without_notice",
        severity: Severity::Medium,
        section: Section::Services,
        replaces: (&[], &[Provision::Suspension]),
    },
    Row {
        problem: Problem::UnboundedExpenses,
        name: "unbounded_expenses",
        severity: Severity::Low,
        section: Section::Fees,
        replaces: (&[], &[Provision::Expenses]),
    },
    Row {
        problem: Problem::TermConflict,
        name: "term_conflict",
        severity: Severity::Low,
        section: Section::Term,
        replaces: (&[Clause::ExpirationDate], &[]),
    },
    Row {
        problem: Problem::DeemedAcceptance,
        name: "deemed_acceptance",
        severity: Severity::Low,
        section: Section::Services,
        replaces: (&[], &[Provision::Acceptance]),
    },
];

impl Problem {
    /// All problems.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.problem)
    }

    /// Name in the data files.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Severity of the problem.
    pub fn severity(self) -> Severity {
        self.row().severity
    }

    /// Section of the contract that contains it.
    pub fn section(self) -> Section {
        self.row().section
    }

    /// Whether it is planted by omission, so that it has no phrasing.
    pub fn is_absence(self) -> bool {
        self == Self::MissingConfidentiality
    }

    /// Whether it consists of two contradicting phrasings.
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
        self.row().replaces.0.contains(&clause)
    }

    pub(super) fn replaces_provision(self, provision: Provision) -> bool {
        self.row().replaces.1.contains(&provision)
    }

    /// Whether both problems replace the same topic and so cannot be planted together.
    pub(super) fn excludes(self, other: Self) -> bool {
        let (clauses, provisions) = self.row().replaces;
        clauses.iter().any(|clause| other.replaces_clause(*clause))
            || provisions.iter().any(|provision| other.replaces_provision(*provision))
    }

    /// The provision that this problem depends on.
    pub(super) fn depends_on(self) -> Option<Provision> {
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
