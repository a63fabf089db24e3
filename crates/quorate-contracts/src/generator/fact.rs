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
pub(super) enum Kind {
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
pub(super) enum Form {
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
const ROWS: [(Fact, &str, Kind); 56] = [
    (Fact::Vendor, "vendor", Kind::Role),
    (Fact::Customer, "customer", Kind::Role),
    (Fact::VendorName, "vendor_name", Kind::Text),
    (Fact::CustomerName, "customer_name", Kind::Text),
    (Fact::VendorEntity, "vendor_entity", Kind::Text),
    (Fact::CustomerEntity, "customer_entity", Kind::Text),
    (Fact::VendorAddress, "vendor_address", Kind::Text),
    (Fact::CustomerAddress, "customer_address", Kind::Text),
    (Fact::Document, "document", Kind::Text),
    (Fact::ContractNumber, "contract_number", Kind::Text),
    (Fact::Services, "services", Kind::Text),
    (Fact::Product, "product", Kind::Text),
    (Fact::Law, "law", Kind::Text),
    (Fact::OtherLaw, "other_law", Kind::Text),
    (Fact::Venue, "venue", Kind::Text),
    (Fact::OtherVenue, "other_venue", Kind::Text),
    (Fact::ThirdCountry, "third_country", Kind::Text),
    (Fact::AgreementDate, "agreement_date", Kind::Date),
    (Fact::EffectiveDate, "effective_date", Kind::Date),
    (Fact::ExpirationDate, "expiration_date", Kind::Date),
    (Fact::OtherExpiration, "other_expiration", Kind::Date),
    (Fact::AnnualFee, "annual_fee", Kind::Money),
    (Fact::Cap, "cap", Kind::Money),
    (Fact::OtherCap, "other_cap", Kind::Money),
    (Fact::TrivialCap, "trivial_cap", Kind::Money),
    (Fact::Minimum, "minimum", Kind::Money),
    (Fact::OverMinimum, "over_minimum", Kind::Money),
    (Fact::Budget, "budget", Kind::Money),
    (Fact::Liquidated, "liquidated", Kind::Money),
    (Fact::Penalty, "penalty", Kind::Money),
    (Fact::Prepayment, "prepayment", Kind::Money),
    (Fact::Insurance, "insurance", Kind::Money),
    (Fact::TermYears, "term_years", Kind::Count),
    (Fact::RenewalMonths, "renewal_months", Kind::Count),
    (Fact::LongRenewalMonths, "long_renewal_months", Kind::Count),
    (Fact::RenewalNoticeDays, "renewal_notice_days", Kind::Count),
    (Fact::LongNoticeDays, "long_notice_days", Kind::Count),
    (Fact::ConvenienceDays, "convenience_days", Kind::Count),
    (Fact::CustomerNoticeDays, "customer_notice_days", Kind::Count),
    (Fact::CureDays, "cure_days", Kind::Count),
    (Fact::PaymentDays, "payment_days", Kind::Count),
    (Fact::OtherPaymentDays, "other_payment_days", Kind::Count),
    (Fact::WarrantyDays, "warranty_days", Kind::Count),
    (Fact::AuditDays, "audit_days", Kind::Count),
    (Fact::TransitionDays, "transition_days", Kind::Count),
    (Fact::AcceptanceDays, "acceptance_days", Kind::Count),
    (Fact::ClaimDays, "claim_days", Kind::Count),
    (Fact::BreachHours, "breach_hours", Kind::Count),
    (Fact::BreachDays, "breach_days", Kind::Count),
    (Fact::RestrictionMonths, "restriction_months", Kind::Count),
    (Fact::LongRestrictionMonths, "long_restriction_months", Kind::Count),
    (Fact::Volume, "volume", Kind::Count),
    (Fact::LateFee, "late_fee", Kind::Percent),
    (Fact::HighLateFee, "high_late_fee", Kind::Percent),
    (Fact::PriceCap, "price_cap", Kind::Percent),
    (Fact::RevenueShare, "revenue_share", Kind::Percent),
];

impl Fact {
    /// Name in phrasings, without the braces.
    pub fn name(self) -> &'static str {
        ROWS[self as usize].1
    }

    pub(super) fn kind(self) -> Kind {
        ROWS[self as usize].2
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.0)
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

impl Form {
    /// Parses the form after the colon of a placeholder.
    pub(super) fn named(name: &str) -> Option<Self> {
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
    pub(super) fn suits(self, kind: Kind) -> bool {
        match self {
            Self::Plain => true,
            Self::Sentence | Self::Term => kind == Kind::Role,
            Self::Upper => matches!(kind, Kind::Role | Kind::Text),
            Self::Long | Self::Day | Self::Iso | Self::Legal => kind == Kind::Date,
            Self::Figures | Self::Words | Self::Both => {
                matches!(kind, Kind::Money | Kind::Count | Kind::Percent)
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
