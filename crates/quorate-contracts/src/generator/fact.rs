//! Facts of a contract, with the names used in phrasings: `{cap}`, `{effective_date:iso}`.

use serde::Serialize;

/// A fact of a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory; the table below lists their kinds")]
pub enum Fact {
    Vendor,
    Customer,
    VendorName,
    CustomerName,
    VendorEntity,
    CustomerEntity,
    VendorAddress,
    CustomerAddress,
    Document,
    ContractNumber,
    Services,
    Product,
    Law,
    OtherLaw,
    Venue,
    OtherVenue,
    ThirdCountry,
    AgreementDate,
    EffectiveDate,
    ExpirationDate,
    OtherExpiration,
    AnnualFee,
    Cap,
    OtherCap,
    TrivialCap,
    Minimum,
    OverMinimum,
    Budget,
    Liquidated,
    Penalty,
    Prepayment,
    Insurance,
    TermYears,
    RenewalMonths,
    LongRenewalMonths,
    RenewalNoticeDays,
    LongNoticeDays,
    ConvenienceDays,
    CustomerNoticeDays,
    CureDays,
    PaymentDays,
    OtherPaymentDays,
    WarrantyDays,
    AuditDays,
    TransitionDays,
    AcceptanceDays,
    ClaimDays,
    BreachHours,
    BreachDays,
    RestrictionMonths,
    LongRestrictionMonths,
    Volume,
    LateFee,
    HighLateFee,
    PriceCap,
    RevenueShare,
}

/// Kind of a fact, which determines the forms in which it can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FactKind {
    /// A party in its role: "Supplier", or "the Supplier".
    Role,
    Text,
    Date,
    Money,
    Count,
    Percent,
}

/// Form requested by a phrasing. With `Plain`, the style of the contract decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FactForm {
    Plain,
    /// `{Vendor}`: at the beginning of a sentence.
    Sentence,
    /// `{VENDOR}`: in text in capitals.
    Upper,
    /// `{vendor:term}`: without an article.
    Term,
    /// March 3, 2025.
    Long,
    /// 3 March 2025.
    Day,
    /// 2025-03-03.
    Iso,
    /// The 3rd day of March, 2025.
    Legal,
    /// Digits.
    Figures,
    /// Words.
    Words,
    /// Words, with digits in parentheses.
    Both,
}

/// In the order of the variants; verified by a test.
const ROWS: [(Fact, &str, FactKind); 56] = [
    (Fact::Vendor, "vendor", FactKind::Role),
    (Fact::Customer, "customer", FactKind::Role),
    (Fact::VendorName, "vendor_name", FactKind::Text),
    (Fact::CustomerName, "customer_name", FactKind::Text),
    (Fact::VendorEntity, "vendor_entity", FactKind::Text),
    (Fact::CustomerEntity, "customer_entity", FactKind::Text),
    (Fact::VendorAddress, "vendor_address", FactKind::Text),
    (Fact::CustomerAddress, "customer_address", FactKind::Text),
    (Fact::Document, "document", FactKind::Text),
    (Fact::ContractNumber, "contract_number", FactKind::Text),
    (Fact::Services, "services", FactKind::Text),
    (Fact::Product, "product", FactKind::Text),
    (Fact::Law, "law", FactKind::Text),
    (Fact::OtherLaw, "other_law", FactKind::Text),
    (Fact::Venue, "venue", FactKind::Text),
    (Fact::OtherVenue, "other_venue", FactKind::Text),
    (Fact::ThirdCountry, "third_country", FactKind::Text),
    (Fact::AgreementDate, "agreement_date", FactKind::Date),
    (Fact::EffectiveDate, "effective_date", FactKind::Date),
    (Fact::ExpirationDate, "expiration_date", FactKind::Date),
    (Fact::OtherExpiration, "other_expiration", FactKind::Date),
    (Fact::AnnualFee, "annual_fee", FactKind::Money),
    (Fact::Cap, "cap", FactKind::Money),
    (Fact::OtherCap, "other_cap", FactKind::Money),
    (Fact::TrivialCap, "trivial_cap", FactKind::Money),
    (Fact::Minimum, "minimum", FactKind::Money),
    (Fact::OverMinimum, "over_minimum", FactKind::Money),
    (Fact::Budget, "budget", FactKind::Money),
    (Fact::Liquidated, "liquidated", FactKind::Money),
    (Fact::Penalty, "penalty", FactKind::Money),
    (Fact::Prepayment, "prepayment", FactKind::Money),
    (Fact::Insurance, "insurance", FactKind::Money),
    (Fact::TermYears, "term_years", FactKind::Count),
    (Fact::RenewalMonths, "renewal_months", FactKind::Count),
    (Fact::LongRenewalMonths, "long_renewal_months", FactKind::Count),
    (Fact::RenewalNoticeDays, "renewal_notice_days", FactKind::Count),
    (Fact::LongNoticeDays, "long_notice_days", FactKind::Count),
    (Fact::ConvenienceDays, "convenience_days", FactKind::Count),
    (Fact::CustomerNoticeDays, "customer_notice_days", FactKind::Count),
    (Fact::CureDays, "cure_days", FactKind::Count),
    (Fact::PaymentDays, "payment_days", FactKind::Count),
    (Fact::OtherPaymentDays, "other_payment_days", FactKind::Count),
    (Fact::WarrantyDays, "warranty_days", FactKind::Count),
    (Fact::AuditDays, "audit_days", FactKind::Count),
    (Fact::TransitionDays, "transition_days", FactKind::Count),
    (Fact::AcceptanceDays, "acceptance_days", FactKind::Count),
    (Fact::ClaimDays, "claim_days", FactKind::Count),
    (Fact::BreachHours, "breach_hours", FactKind::Count),
    (Fact::BreachDays, "breach_days", FactKind::Count),
    (Fact::RestrictionMonths, "restriction_months", FactKind::Count),
    (Fact::LongRestrictionMonths, "long_restriction_months", FactKind::Count),
    (Fact::Volume, "volume", FactKind::Count),
    (Fact::LateFee, "late_fee", FactKind::Percent),
    (Fact::HighLateFee, "high_late_fee", FactKind::Percent),
    (Fact::PriceCap, "price_cap", FactKind::Percent),
    (Fact::RevenueShare, "revenue_share", FactKind::Percent),
];

impl Fact {
    /// Name in phrasings, without the braces.
    pub fn name(self) -> &'static str {
        ROWS[self as usize].1
    }

    pub(super) fn kind(self) -> FactKind {
        ROWS[self as usize].2
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.0)
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

impl FactForm {
    /// Parses the form after the colon of a placeholder.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "term" => Self::Term,
            "long" => Self::Long,
            "day" => Self::Day,
            "iso" => Self::Iso,
            "legal" => Self::Legal,
            "figures" => Self::Figures,
            "words" => Self::Words,
            "both" => Self::Both,
            _ => return None,
        })
    }

    /// Whether a fact of this kind can be written in this form.
    pub(super) fn applies_to(self, kind: FactKind) -> bool {
        match self {
            Self::Plain => true,
            Self::Sentence | Self::Term => kind == FactKind::Role,
            Self::Upper => matches!(kind, FactKind::Role | FactKind::Text),
            Self::Long | Self::Day | Self::Iso | Self::Legal => kind == FactKind::Date,
            Self::Figures | Self::Words | Self::Both => {
                matches!(kind, FactKind::Money | FactKind::Count | FactKind::Percent)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_is_in_its_row_under_its_name() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{}", row.1);
            assert_eq!(serde_json::to_value(row.0).unwrap(), row.1);
        }
    }
}
