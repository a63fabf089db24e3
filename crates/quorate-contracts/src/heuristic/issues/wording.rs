//! Wording of issues: a sentence with the effect and the location, and the advice.

use super::Issue;
use crate::generator::Problem;

/// Describes the effect of an issue in one sentence with its location.
pub(crate) fn describe(issue: &Issue, label: &str) -> String {
    let extent = issue.extent.as_str();
    let if_extent = |with: String, without: &str| if extent.is_empty() { without.to_owned() } else { with };
    let effect = match issue.problem {
        Problem::UncappedCustomerLiability => {
            if_extent("leaves the customer's indemnity outside of the cap on liability".into(), "leaves the customer's liability without a cap")
        }
        Problem::TrivialVendorCap => format!("caps the vendor's liability at {extent}"),
        Problem::OneSidedIndemnity => "makes the customer alone indemnify; the vendor gives no indemnity anywhere".into(),
        Problem::LongRenewalNotice => format!("renews the agreement by itself unless notice is given {extent} ahead"),
        Problem::IpToVendor => "makes the vendor the owner of what is made for the customer or comes from it".into(),
        Problem::MissingDataProcessing => {
            "has personal data of people in the European Union processed, and no terms of Article 28 GDPR are agreed".into()
        }
        Problem::MissingTransferTerms => {
            "lets personal data leave the European Economic Area, and nothing safeguards the transfer".into()
        }
        Problem::PhiWithoutBaa => "gives the vendor health information without a business associate agreement".into(),
        Problem::CcpaSale => "lets the vendor sell personal information of Californians".into(),
        Problem::ExcessiveLateFee => format!("charges {extent} on what is overdue"),
        Problem::PaymentConflict => format!("contradicts the body on when invoices are due: {extent}"),
        Problem::CapConflict => format!("contradicts the body on the cap on liability: {extent}"),
        Problem::MinimumOverBudget => format!("commits the customer to buy for {extent}"),
        Problem::UnlimitedPriceIncrease => "lets the vendor raise its prices without any limit".into(),
        Problem::TerminationAsymmetry => "lets the vendor leave when it likes and holds the customer to the end".into(),
        Problem::GoverningLawMismatch => format!("contradicts the body on the governing law: {extent}"),
        Problem::MissingConfidentiality => return "Nothing in the contract obliges anybody to keep anything confidential.".into(),
        Problem::UnilateralAmendment => "lets the vendor change the agreement alone".into(),
        Problem::NoWarranty => "promises nothing of the quality of the services".into(),
        Problem::CustomerNoncompete => "forbids the customer to compete with the vendor".into(),
        Problem::CustomerExclusivity => "binds the customer to buy from the vendor alone".into(),
        Problem::TrainingUse => "lets the vendor use the customer's data for its own products".into(),
        Problem::SlowBreachNotice => {
            if_extent(format!("lets the customer hear of a data breach only after {extent}"), "leaves it to the vendor whether the customer hears of a data breach")
        }
        Problem::FreeAssignment => "lets the vendor pass the agreement on without the customer's consent".into(),
        Problem::EarlyTerminationPenalty => {
            if_extent(format!("makes the customer pay {extent} of the remaining fees if it leaves early"), "makes the customer pay for the rest of the term if it leaves early")
        }
        Problem::IntrusiveAudit => "lets the vendor inspect the customer as it likes or at the customer's cost".into(),
        Problem::NonrefundablePrepayment => "keeps what the customer has paid ahead, whatever happens".into(),
        Problem::ShortClaimPeriod => format!("cuts off the customer's claims after {extent}"),
        Problem::PublicityWithoutConsent => "lets the vendor advertise with the customer's name without asking".into(),
        Problem::SuspensionWithoutNotice => "lets the vendor stop the services without notice".into(),
        Problem::UnboundedExpenses => "makes the customer pay expenses without any bound".into(),
        Problem::TermConflict => format!("contradicts the body on the end of the term: {extent}"),
        Problem::DeemedAcceptance => "takes silence or delivery for acceptance".into(),
    };
    let mut label = label.to_owned();
    if let Some(first) = label.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    format!("{label} {effect}.")
}

/// Recommended remedy.
pub(crate) fn advice(problem: Problem) -> &'static str {
    match problem {
        Problem::UncappedCustomerLiability => "cap the customer's liability like the vendor's",
        Problem::TrivialVendorCap => "raise the vendor's cap to at least a year's fees",
        Problem::OneSidedIndemnity => "make the indemnity mutual",
        Problem::LongRenewalNotice => "shorten the notice to 30 days",
        Problem::IpToVendor => "the customer owns its data and what it pays for",
        Problem::MissingDataProcessing => "add a data processing agreement under Article 28 GDPR",
        Problem::MissingTransferTerms => "add the Standard Contractual Clauses",
        Problem::PhiWithoutBaa => "sign a business associate agreement first",
        Problem::CcpaSale => "forbid the sale of personal information",
        Problem::ExcessiveLateFee => "limit interest to 1.5 % a month on undisputed amounts",
        Problem::PaymentConflict
        | Problem::CapConflict
        | Problem::GoverningLawMismatch
        | Problem::TermConflict => "say it once, and say which place prevails",
        Problem::MinimumOverBudget => "lower the minimum below the budget, or strike it",
        Problem::UnlimitedPriceIncrease => "cap increases at a few percent a year with notice",
        Problem::TerminationAsymmetry => "give both sides the same right to terminate",
        Problem::MissingConfidentiality => "add mutual confidentiality",
        Problem::UnilateralAmendment => "changes need both signatures",
        Problem::NoWarranty => "add a warranty of professional performance",
        Problem::CustomerNoncompete => "strike the restriction on the customer",
        Problem::CustomerExclusivity => "leave the customer free to buy elsewhere",
        Problem::TrainingUse => "limit use of customer data to the services",
        Problem::SlowBreachNotice => "notice within 72 hours of discovery",
        Problem::FreeAssignment => "assignment by either side needs consent",
        Problem::EarlyTerminationPenalty => "pay for work done, nothing more",
        Problem::IntrusiveAudit => "audits once a year, on notice, at the vendor's cost",
        Problem::NonrefundablePrepayment => "refund what was not performed",
        Problem::ShortClaimPeriod => "leave the statutory period for claims",
        Problem::PublicityWithoutConsent => "names and logos with consent only",
        Problem::SuspensionWithoutNotice => "suspension only after notice and time to cure",
        Problem::UnboundedExpenses => "expenses approved in advance only",
        Problem::DeemedAcceptance => "acceptance in writing after a test",
    }
}
