//! The 41 types of clauses labelled in the CUAD data set, with their sections.

use serde::{Deserialize, Serialize};

use super::section::Section;

/// A type of clause, named as in CUAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clause {
    /// Document Name.
    DocumentName,
    /// Parties.
    Parties,
    /// Agreement Date.
    AgreementDate,
    /// Effective Date.
    EffectiveDate,
    /// Expiration Date.
    ExpirationDate,
    /// Renewal Term.
    RenewalTerm,
    /// Notice Period To Terminate Renewal.
    NoticePeriodToTerminateRenewal,
    /// Governing Law.
    GoverningLaw,
    /// Most Favored Nation.
    MostFavoredNation,
    /// Non-Compete.
    NonCompete,
    /// Exclusivity.
    Exclusivity,
    /// No-Solicit Of Customers.
    NoSolicitOfCustomers,
    /// Competitive Restriction Exception.
    CompetitiveRestrictionException,
    /// No-Solicit Of Employees.
    NoSolicitOfEmployees,
    /// Non-Disparagement.
    NonDisparagement,
    /// Termination For Convenience.
    TerminationForConvenience,
    /// Rofr/Rofo/Rofn.
    RofrRofoRofn,
    /// Change Of Control.
    ChangeOfControl,
    /// Anti-Assignment.
    AntiAssignment,
    /// Revenue/Profit Sharing.
    RevenueProfitSharing,
    /// Price Restrictions.
    PriceRestrictions,
    /// Minimum Commitment.
    MinimumCommitment,
    /// Volume Restriction.
    VolumeRestriction,
    /// Ip Ownership Assignment.
    IpOwnershipAssignment,
    /// Joint Ip Ownership.
    JointIpOwnership,
    /// License Grant.
    LicenseGrant,
    /// Non-Transferable License.
    NonTransferableLicense,
    /// Affiliate License-Licensor.
    AffiliateLicenseLicensor,
    /// Affiliate License-Licensee.
    AffiliateLicenseLicensee,
    /// Unlimited/All-You-Can-Eat-License.
    UnlimitedLicense,
    /// Irrevocable Or Perpetual License.
    IrrevocableOrPerpetualLicense,
    /// Source Code Escrow.
    SourceCodeEscrow,
    /// Post-Termination Services.
    PostTerminationServices,
    /// Audit Rights.
    AuditRights,
    /// Uncapped Liability.
    UncappedLiability,
    /// Cap On Liability.
    CapOnLiability,
    /// Liquidated Damages.
    LiquidatedDamages,
    /// Warranty Duration.
    WarrantyDuration,
    /// Insurance.
    Insurance,
    /// Covenant Not To Sue.
    CovenantNotToSue,
    /// Third Party Beneficiary.
    ThirdPartyBeneficiary,
}

struct Row {
    clause: Clause,
    name: &'static str,
    title: &'static str,
    section: Section,
    /// Percentage of medium-length contracts that contain it.
    percent: u32,
}

/// In the order of the variants; verified by a test.
const ROWS: [Row; 41] = [
    row(Clause::DocumentName, "document_name", "Document Name", Section::Title, 100),
    row(Clause::Parties, "parties", "Parties", Section::Preamble, 100),
    row(Clause::AgreementDate, "agreement_date", "Agreement Date", Section::Preamble, 100),
    row(Clause::EffectiveDate, "effective_date", "Effective Date", Section::Term, 95),
    row(Clause::ExpirationDate, "expiration_date", "Expiration Date", Section::Term, 80),
    row(Clause::RenewalTerm, "renewal_term", "Renewal Term", Section::Term, 55),
    row(
        Clause::NoticePeriodToTerminateRenewal,
        "notice_period_to_terminate_renewal",
        "Notice Period To Terminate Renewal",
        Section::Term,
        35,
    ),
    row(Clause::GoverningLaw, "governing_law", "Governing Law", Section::General, 92),
    row(Clause::MostFavoredNation, "most_favored_nation", "Most Favored Nation", Section::Fees, 20),
    row(Clause::NonCompete, "non_compete", "Non-Compete", Section::Covenants, 25),
    row(Clause::Exclusivity, "exclusivity", "Exclusivity", Section::Covenants, 25),
    row(
        Clause::NoSolicitOfCustomers,
        "no_solicit_of_customers",
        "No-Solicit Of Customers",
        Section::Covenants,
        20,
    ),
    row(
        Clause::CompetitiveRestrictionException,
        "competitive_restriction_exception",
        "Competitive Restriction Exception",
        Section::Covenants,
        15,
    ),
    row(
        Clause::NoSolicitOfEmployees,
        "no_solicit_of_employees",
        "No-Solicit Of Employees",
        Section::Covenants,
        30,
    ),
    row(Clause::NonDisparagement, "non_disparagement", "Non-Disparagement", Section::Covenants, 20),
    row(
        Clause::TerminationForConvenience,
        "termination_for_convenience",
        "Termination For Convenience",
        Section::Term,
        50,
    ),
    row(Clause::RofrRofoRofn, "rofr_rofo_rofn", "Rofr/Rofo/Rofn", Section::Covenants, 20),
    row(Clause::ChangeOfControl, "change_of_control", "Change Of Control", Section::Term, 25),
    row(Clause::AntiAssignment, "anti_assignment", "Anti-Assignment", Section::General, 65),
    row(Clause::RevenueProfitSharing, "revenue_profit_sharing", "Revenue/Profit Sharing", Section::Fees, 20),
    row(Clause::PriceRestrictions, "price_restrictions", "Price Restrictions", Section::Fees, 40),
    row(Clause::MinimumCommitment, "minimum_commitment", "Minimum Commitment", Section::Fees, 30),
    row(Clause::VolumeRestriction, "volume_restriction", "Volume Restriction", Section::Services, 25),
    row(Clause::IpOwnershipAssignment, "ip_ownership_assignment", "Ip Ownership Assignment", Section::Ip, 45),
    row(Clause::JointIpOwnership, "joint_ip_ownership", "Joint Ip Ownership", Section::Ip, 20),
    row(Clause::LicenseGrant, "license_grant", "License Grant", Section::Ip, 60),
    row(
        Clause::NonTransferableLicense,
        "non_transferable_license",
        "Non-Transferable License",
        Section::Ip,
        30,
    ),
    row(
        Clause::AffiliateLicenseLicensor,
        "affiliate_license_licensor",
        "Affiliate License-Licensor",
        Section::Ip,
        15,
    ),
    row(
        Clause::AffiliateLicenseLicensee,
        "affiliate_license_licensee",
        "Affiliate License-Licensee",
        Section::Ip,
        25,
    ),
    row(Clause::UnlimitedLicense, "unlimited_license", "Unlimited/All-You-Can-Eat-License", Section::Ip, 15),
    row(
        Clause::IrrevocableOrPerpetualLicense,
        "irrevocable_or_perpetual_license",
        "Irrevocable Or Perpetual License",
        Section::Ip,
        25,
    ),
    row(Clause::SourceCodeEscrow, "source_code_escrow", "Source Code Escrow", Section::Ip, 20),
    row(
        Clause::PostTerminationServices,
        "post_termination_services",
        "Post-Termination Services",
        Section::Term,
        45,
    ),
    row(Clause::AuditRights, "audit_rights", "Audit Rights", Section::Fees, 40),
    row(Clause::UncappedLiability, "uncapped_liability", "Uncapped Liability", Section::Liability, 45),
    row(Clause::CapOnLiability, "cap_on_liability", "Cap On Liability", Section::Liability, 100),
    row(Clause::LiquidatedDamages, "liquidated_damages", "Liquidated Damages", Section::Liability, 25),
    row(Clause::WarrantyDuration, "warranty_duration", "Warranty Duration", Section::Warranties, 40),
    row(Clause::Insurance, "insurance", "Insurance", Section::Insurance, 45),
    row(Clause::CovenantNotToSue, "covenant_not_to_sue", "Covenant Not To Sue", Section::Covenants, 20),
    row(
        Clause::ThirdPartyBeneficiary,
        "third_party_beneficiary",
        "Third Party Beneficiary",
        Section::General,
        20,
    ),
];

const fn row(clause: Clause, name: &'static str, title: &'static str, section: Section, percent: u32) -> Row {
    Row { clause, name, title, section, percent }
}

impl Clause {
    /// All 41 types, in the order of CUAD.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.clause)
    }

    /// Name in the data files: `cap_on_liability`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Name in CUAD: `Cap On Liability`.
    pub fn title(self) -> &'static str {
        self.row().title
    }

    /// Section of the contract that contains it.
    pub fn section(self) -> Section {
        self.row().section
    }

    pub(super) fn frequency_percent(self) -> u32 {
        self.row().percent
    }

    /// The clause that this one depends on.
    pub(super) fn depends_on(self) -> Option<Self> {
        match self {
            Self::NoticePeriodToTerminateRenewal => Some(Self::RenewalTerm),
            Self::CompetitiveRestrictionException => Some(Self::NonCompete),
            Self::NonTransferableLicense
            | Self::AffiliateLicenseLicensor
            | Self::AffiliateLicenseLicensee
            | Self::UnlimitedLicense
            | Self::IrrevocableOrPerpetualLicense => Some(Self::LicenseGrant),
            Self::UncappedLiability => Some(Self::CapOnLiability),
            _ => None,
        }
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clause_is_in_its_row_under_its_name() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.clause as usize, index, "{}", row.name);
            assert_eq!(serde_json::to_value(row.clause).unwrap(), row.name);
        }
    }
}
