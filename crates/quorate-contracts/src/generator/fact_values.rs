//! Values of the facts of one contract: parties, dates, amounts. All are fictitious.
//!
//! Facts of unproblematic clauses stay within bounds and those of planted problems lie outside: at most 1.5 % late fee
//! per month, at most 60 days' notice against a renewal, a minimum below the budget, and so on.

use super::fact::Fact;
use super::rng::SeededRng;
use super::value::{Currency, Date, Value};

/// A value for every fact, whether the contract states it or not.
pub(super) struct FactValues {
    values: Vec<Value>,
}

struct Jurisdiction {
    law: &'static str,
    venue: &'static str,
    entity: &'static str,
    ending: &'static str,
    address: &'static str,
    currency: Currency,
}

const JURISDICTIONS: [Jurisdiction; 8] = [
    Jurisdiction {
        law: "the State of New York",
        venue: "New York County, New York",
        entity: "a New York corporation",
        ending: "Inc.",
        address: "Quarry Street, Albany, New York",
        currency: Currency::Usd,
    },
    Jurisdiction {
        law: "the State of Delaware",
        venue: "Wilmington, Delaware",
        entity: "a Delaware corporation",
        ending: "Corp.",
        address: "Millrace Road, Dover, Delaware",
        currency: Currency::Usd,
    },
    Jurisdiction {
        law: "the State of California",
        venue: "San Francisco, California",
        entity: "a California limited liability company",
        ending: "LLC",
        address: "Juniper Way, Fresno, California",
        currency: Currency::Usd,
    },
    Jurisdiction {
        law: "the State of Texas",
        venue: "Travis County, Texas",
        entity: "a Texas limited partnership",
        ending: "LP",
        address: "Pecan Lane, Austin, Texas",
        currency: Currency::Usd,
    },
    Jurisdiction {
        law: "the Commonwealth of Massachusetts",
        venue: "Boston, Massachusetts",
        entity: "a Massachusetts corporation",
        ending: "Inc.",
        address: "Harbor View, Salem, Massachusetts",
        currency: Currency::Usd,
    },
    Jurisdiction {
        law: "England and Wales",
        venue: "London",
        entity: "a company incorporated in England and Wales",
        ending: "Ltd",
        address: "Saddler's Row, Leeds",
        currency: Currency::Gbp,
    },
    Jurisdiction {
        law: "Ireland",
        venue: "Dublin",
        entity: "a company incorporated in Ireland",
        ending: "DAC",
        address: "Ropewalk, Cork",
        currency: Currency::Eur,
    },
    Jurisdiction {
        law: "Germany",
        venue: "Hamburg",
        entity: "a limited liability company under German law",
        ending: "GmbH",
        address: "Am Alten Speicher, Hamburg",
        currency: Currency::Eur,
    },
];

const VENDORS: [&str; 16] = [
    "Quillfeather Systems",
    "Brackenmoor Cloudworks",
    "Tallowgate Software",
    "Ferrystone Analytics",
    "Lanternfield Digital",
    "Copperwick Technologies",
    "Osprey Hollow Data",
    "Thistledown Networks",
    "Marrowbridge Solutions",
    "Saltmarsh Computing",
    "Gantry Lane Labs",
    "Hollybank Informatics",
    "Windlass Platforms",
    "Kestrelford Services",
    "Pinecrest Tidewater IT",
    "Underbarrow Logic",
];
const CUSTOMERS: [&str; 16] = [
    "Maplethorpe Foods",
    "Harrowgate Freight",
    "Silverbeck Retail",
    "Dunmere Health Partners",
    "Oakhanger Insurance",
    "Cinderford Mills",
    "Larkspur Hotels",
    "Greywether Energy",
    "Bellweather Publishing",
    "Stonecrop Pharma",
    "Ashby Vale Clinics",
    "Tidewell Shipping",
    "Rookwood Furniture",
    "Fallowmere Farms",
    "Penhallow Bank",
    "Whitlow Instruments",
];
const ROLES: [(&str, &str); 5] = [
    ("Vendor", "Customer"),
    ("Provider", "Client"),
    ("Supplier", "Customer"),
    ("Contractor", "Purchaser"),
    ("Service Provider", "Client"),
];
const DOCUMENTS: [&str; 6] = [
    "Master Services Agreement",
    "Professional Services Agreement",
    "Software and Services Agreement",
    "Hosted Services Agreement",
    "Consulting Services Agreement",
    "Outsourcing Agreement",
];
const SERVICES: [&str; 8] = [
    "managed hosting and application support",
    "data analytics and reporting",
    "payroll administration",
    "route planning for deliveries",
    "customer loyalty programs",
    "document digitization",
    "call center operations",
    "inventory forecasting",
];
const PRODUCTS: [&str; 8] = [
    "Tessera",
    "LedgerLoom",
    "Harborlight",
    "Quantiva",
    "FlowAlmanac",
    "Nimbus Desk",
    "Gridwren",
    "Parcelmind",
];
const THIRD_COUNTRIES: [&str; 5] = ["India", "the Philippines", "Brazil", "Vietnam", "South Africa"];

impl FactValues {
    pub(super) fn random(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed, "facts");
        let mut facts = Self { values: vec![Value::Count(0); Fact::all().count()] };
        facts.draw_parties(&mut rng);
        facts.draw_dates(&mut rng);
        facts.draw_amounts(&mut rng);
        facts.draw_counts(&mut rng);
        facts
    }

    pub(super) fn get(&self, fact: Fact) -> &Value {
        &self.values[fact as usize]
    }

    fn set(&mut self, fact: Fact, value: Value) {
        self.values[fact as usize] = value;
    }

    fn text(&mut self, fact: Fact, text: impl Into<String>) {
        self.set(fact, Value::Text(text.into()));
    }

    fn draw_parties(&mut self, rng: &mut SeededRng) {
        let mut jurisdictions: Vec<&Jurisdiction> = JURISDICTIONS.iter().collect();
        rng.shuffle(&mut jurisdictions);
        let [vendor, customer, ..] = jurisdictions[..] else { return };
        let (vendor_role, customer_role) = *rng.pick(&ROLES);
        self.set(Fact::Vendor, Value::Role(vendor_role.to_owned()));
        self.set(Fact::Customer, Value::Role(customer_role.to_owned()));
        let name = *rng.pick(&VENDORS);
        self.text(Fact::VendorName, format!("{name} {}", vendor.ending));
        let name = *rng.pick(&CUSTOMERS);
        self.text(Fact::CustomerName, format!("{name} {}", customer.ending));
        self.text(Fact::VendorEntity, vendor.entity);
        self.text(Fact::CustomerEntity, customer.entity);
        self.text(Fact::VendorAddress, format!("{} {}", rng.between(1, 240), vendor.address));
        self.text(Fact::CustomerAddress, format!("{} {}", rng.between(1, 240), customer.address));
        let (law, other) = if rng.with_percent(50) { (vendor, customer) } else { (customer, vendor) };
        self.text(Fact::Law, law.law);
        self.text(Fact::Venue, law.venue);
        self.text(Fact::OtherLaw, other.law);
        self.text(Fact::OtherVenue, other.venue);
        self.set(Fact::AnnualFee, Value::Money { currency: law.currency, amount: 0 });
        self.text(Fact::Document, *rng.pick(&DOCUMENTS));
        self.text(Fact::Services, *rng.pick(&SERVICES));
        self.text(Fact::Product, *rng.pick(&PRODUCTS));
        self.text(Fact::ThirdCountry, *rng.pick(&THIRD_COUNTRIES));
        let prefixes = ["MSA", "PSA", "CT", "AGR"];
        let number = format!("{}-{:04}", rng.pick(&prefixes), rng.between(1, 9_999));
        self.text(Fact::ContractNumber, number);
    }

    fn draw_dates(&mut self, rng: &mut SeededRng) {
        let signed =
            Date { year: rng.between(2022, 2026), month: rng.between(1, 12), day: rng.between(1, 28) };
        let next_month = match signed.month {
            12 => Date { year: signed.year + 1, month: 1, day: 1 },
            month => Date { month: month + 1, day: 1, ..signed },
        };
        let effective = if rng.with_percent(40) { signed } else { next_month };
        let years = rng.between(1, 5);
        let expiration = Date { year: effective.year + years, ..effective };
        let other = Date { year: expiration.year + rng.between(1, 2), ..expiration };
        self.set(Fact::AgreementDate, Value::Date(signed));
        self.set(Fact::EffectiveDate, Value::Date(effective));
        self.set(Fact::TermYears, Value::Count(years.into()));
        self.set(Fact::ExpirationDate, Value::Date(expiration));
        self.set(Fact::OtherExpiration, Value::Date(other));
    }

    fn draw_amounts(&mut self, rng: &mut SeededRng) {
        let Value::Money { currency, .. } = *self.get(Fact::AnnualFee) else { return };
        let mut money = |fact, amount| self.set(fact, Value::Money { currency, amount });
        let thousands = |amount: u64| amount.div_ceil(1_000) * 1_000;
        let fee = u64::from(rng.between(5, 75)) * 12_000;
        let cap = fee * u64::from(rng.between(2, 4)) / 2;
        let budget = thousands(fee * u64::from(rng.between(100, 130)) / 100);
        money(Fact::AnnualFee, fee);
        money(Fact::Cap, cap);
        money(Fact::OtherCap, *rng.pick(&[cap / 2, cap * 2, cap * 3]));
        // At most a month of the lowest fee.
        money(Fact::TrivialCap, *rng.pick(&[500, 1_000, 2_500, 5_000]));
        money(Fact::Budget, budget);
        money(Fact::Minimum, thousands(budget * u64::from(rng.between(40, 80)) / 100));
        money(Fact::OverMinimum, thousands(budget * u64::from(rng.between(130, 200)) / 100));
        money(Fact::Liquidated, u64::from(rng.between(2, 20)) * 500);
        money(Fact::Penalty, fee * u64::from(rng.between(2, 4)) / 2);
        money(Fact::Prepayment, fee * u64::from(rng.between(1, 2)) / 2);
        money(Fact::Insurance, *rng.pick(&[1_000_000, 2_000_000, 5_000_000]));
    }

    fn draw_counts(&mut self, rng: &mut SeededRng) {
        let counts: [(Fact, &[u64]); 19] = [
            (Fact::RenewalMonths, &[6, 12]),
            (Fact::LongRenewalMonths, &[12, 24, 36]),
            (Fact::RenewalNoticeDays, &[30, 45, 60]),
            (Fact::LongNoticeDays, &[90, 120, 180]),
            (Fact::ConvenienceDays, &[30, 60, 90]),
            (Fact::CustomerNoticeDays, &[90, 120]),
            (Fact::CureDays, &[15, 30, 45]),
            (Fact::PaymentDays, &[30, 45, 60]),
            (Fact::OtherPaymentDays, &[7, 10, 14, 15]),
            (Fact::WarrantyDays, &[30, 60, 90, 180]),
            (Fact::AuditDays, &[10, 14, 20, 30]),
            (Fact::TransitionDays, &[30, 60, 90]),
            (Fact::AcceptanceDays, &[2, 3, 5]),
            (Fact::ClaimDays, &[10, 14, 30]),
            (Fact::BreachHours, &[24, 48, 72]),
            (Fact::BreachDays, &[30, 45, 60]),
            (Fact::RestrictionMonths, &[6, 12, 18, 24]),
            (Fact::LongRestrictionMonths, &[24, 36, 60]),
            (Fact::Volume, &[50, 250, 1_000, 5_000, 10_000]),
        ];
        for (fact, choices) in counts {
            self.set(fact, Value::Count(*rng.pick(choices)));
        }
        let percents: [(Fact, &[u64]); 4] = [
            (Fact::LateFee, &[5, 10, 15]),
            (Fact::HighLateFee, &[20, 25, 30, 50]),
            (Fact::PriceCap, &[30, 40, 50, 70]),
            (Fact::RevenueShare, &[50, 100, 125, 200, 300]),
        ];
        for (fact, choices) in percents {
            self.set(fact, Value::PercentTenths(*rng.pick(choices)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_has_a_value_of_its_kind() {
        use crate::generator::fact::FactKind;
        for seed in 0..50 {
            let facts = FactValues::random(seed);
            for fact in Fact::all() {
                let is_valid = match (fact.kind(), facts.get(fact)) {
                    (FactKind::Role, Value::Role(text)) | (FactKind::Text, Value::Text(text)) => {
                        !text.is_empty()
                    }
                    (FactKind::Date, Value::Date(date)) => date.year > 2000,
                    (FactKind::Money, Value::Money { amount, .. }) => *amount > 0,
                    (FactKind::Count, Value::Count(count)) => *count > 0,
                    (FactKind::Percent, Value::PercentTenths(tenths)) => *tenths > 0,
                    _ => false,
                };
                assert!(is_valid, "seed {seed}: {} is {:?}", fact.name(), facts.get(fact));
            }
        }
    }
}
