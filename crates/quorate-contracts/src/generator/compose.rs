//! Writes the text of a plan and records the labels of every sentence.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Contract;
use super::clause::Clause;
use super::fact::{Fact, FactForm, FactKind};
use super::fact_values::FactValues;
use super::ground_truth::{
    Activation, GroundTruth, Label, NearMiss, PlantedProblem, Recommendation, StatedFact, TextSpan,
    risk_score,
};
use super::layout::Layout;
use super::phrasing::{ContractTopic, Phrasing, PhrasingSet, Phrasings, UnlabelledText};
use super::plan::Plan;
use super::problem::Problem;
use super::provision::Provision;
use super::rng::SeededRng;
use super::section::Section;
use super::template::Piece;
use super::value::Style;

/// A phrasing placed in a section.
struct Item {
    section: Section,
    phrasing: &'static Phrasing,
    /// Label of the item; `None` for near-misses and filler.
    topic: Option<ContractTopic>,
    /// Topics that a near-miss resembles.
    about: &'static [ContractTopic],
}

/// Composes the contract of a seed.
pub(super) fn compose(seed: u64, set: PhrasingSet) -> Contract {
    let plan = Plan::random(seed);
    let facts = FactValues::random(seed);
    let mut style_rng = SeededRng::new(seed, "look");
    let style = Style::random(&mut style_rng);
    let layout = Layout::random(&mut style_rng);
    let mut wording = Wording::new(seed, set, &plan);
    wording.choose();
    let Wording { items, phrasings, mut rng, .. } = wording;
    let mut writer = Writer::new(seed, set, &facts, style);
    writer.write_front(&items);
    let mut number = 0;
    for section in &layout.sections {
        let section_items = in_order(&items, *section);
        if section_items.is_empty() {
            continue;
        }
        number += 1;
        let heading = rng.pick(&phrasings.headings[section]);
        writer.write_section(&layout, number, (*section, heading), &section_items);
    }
    writer.write_signatures();
    writer.finish(&plan, &layout)
}

/// Items of one section. An item that depends on a clause comes after it: an exception after its rule.
fn in_order(items: &[Item], section: Section) -> Vec<&Item> {
    let mut section_items: Vec<&Item> = items.iter().filter(|item| item.section == section).collect();
    section_items.sort_by_key(|item| match item.topic {
        Some(ContractTopic::Clause(clause)) if clause.depends_on().is_some() => 1,
        Some(ContractTopic::Problem(Problem::UncappedCustomerLiability)) => 1,
        _ => 0,
    });
    section_items
}

/// Selection of phrasings for a plan.
struct Wording<'a> {
    plan: &'a Plan,
    phrasings: &'static Phrasings,
    rng: SeededRng,
    items: Vec<Item>,
}

impl<'a> Wording<'a> {
    fn new(seed: u64, set: PhrasingSet, plan: &'a Plan) -> Self {
        let name = match set {
            PhrasingSet::Seen => "seen",
            PhrasingSet::Unseen => "unseen",
        };
        Self { plan, phrasings: set.phrasings(), rng: SeededRng::new(seed, name), items: Vec::new() }
    }

    fn choose(&mut self) {
        for problem in &self.plan.problems {
            if let Some(phrasings) = self.phrasings.problems.get(problem) {
                let phrasing = self.rng.pick(phrasings);
                self.push(problem.section(), phrasing, ContractTopic::Problem(*problem));
                if let Some(second) = phrasing.second.as_deref() {
                    self.push(Section::Schedule, second, ContractTopic::Problem(*problem));
                }
            }
        }
        for provision in &self.plan.provisions {
            let phrasing = self.pick_compatible(&self.phrasings.provisions[provision]);
            self.push(provision.section(), phrasing, ContractTopic::Provision(*provision));
        }
        for clause in &self.plan.clauses {
            // The phrasing of another clause may already contain it.
            if !self.has(ContractTopic::Clause(*clause)) {
                let phrasing = self.pick_compatible(&self.phrasings.clauses[clause]);
                self.push(clause.section(), phrasing, ContractTopic::Clause(*clause));
            }
        }
        self.choose_near_misses();
        self.choose_filler();
        self.rng.shuffle(&mut self.items);
    }

    /// Picks a phrasing that does not contain a clause that a problem replaces.
    fn pick_compatible(&mut self, phrasings: &'static [Phrasing]) -> &'static Phrasing {
        let is_compatible =
            |phrasing: &&Phrasing| !phrasing.holds.iter().any(|clause| self.plan.excludes(*clause));
        let compatible: Vec<&'static Phrasing> = phrasings.iter().filter(is_compatible).collect();
        compatible[self.rng.below(compatible.len())]
    }

    fn choose_near_misses(&mut self) {
        let mut near_misses: Vec<&'static UnlabelledText> = self.phrasings.near_misses.iter().collect();
        near_misses.retain(|text| !text.about.iter().any(|topic| self.has(*topic)));
        self.rng.shuffle(&mut near_misses);
        for text in near_misses.into_iter().take(self.plan.near_misses) {
            let UnlabelledText { section, about, phrasing } = text;
            self.items.push(Item { section: *section, phrasing, topic: None, about });
        }
    }

    fn choose_filler(&mut self) {
        let omits_confidentiality = self.plan.problems.contains(&Problem::MissingConfidentiality);
        let mut filler: Vec<&'static UnlabelledText> = self.phrasings.filler.iter().collect();
        filler.retain(|text| !(omits_confidentiality && text.section == Section::Confidentiality));
        self.rng.shuffle(&mut filler);
        let mut words: usize = self.items.iter().map(|item| words_in(item.phrasing)).sum();
        for UnlabelledText { section, phrasing, .. } in filler {
            if words < self.plan.words {
                words += words_in(phrasing);
                self.items.push(Item { section: *section, phrasing, topic: None, about: &[] });
            }
        }
    }

    fn push(&mut self, section: Section, phrasing: &'static Phrasing, topic: ContractTopic) {
        self.items.push(Item { section, phrasing, topic: Some(topic), about: &[] });
    }

    fn has(&self, topic: ContractTopic) -> bool {
        let holds = |item: &Item| match topic {
            ContractTopic::Clause(clause) => item.phrasing.holds.contains(&clause),
            _ => false,
        };
        self.items.iter().any(|item| item.topic == Some(topic) || holds(item))
            || matches!(topic, ContractTopic::Problem(problem) if self.plan.problems.contains(&problem))
    }
}

/// Approximate number of words of a phrasing; a fact counts as two.
fn words_in(phrasing: &Phrasing) -> usize {
    let pieces = phrasing.text.pieces.iter();
    pieces
        .map(|piece| if let Piece::Words(words) = piece { words.split_whitespace().count() } else { 2 })
        .sum()
}

/// The text written so far, with its labels.
struct Writer<'a> {
    text: String,
    truth: GroundTruth,
    stated: BTreeMap<Fact, Vec<Range<usize>>>,
    facts: &'a FactValues,
    style: Style,
}

impl<'a> Writer<'a> {
    fn new(seed: u64, set: PhrasingSet, facts: &'a FactValues, style: Style) -> Self {
        let activation = Activation {
            personal_data: false,
            eu: false,
            california: false,
            health: false,
            ip: false,
            money: false,
        };
        let truth = GroundTruth {
            seed,
            set,
            clauses: Vec::new(),
            provisions: Vec::new(),
            problems: Vec::new(),
            near_misses: Vec::new(),
            facts: Vec::new(),
            activation,
            risk_score: 0,
            recommendation: Recommendation::SignAsIs,
        };
        Self { text: String::new(), truth, stated: BTreeMap::new(), facts, style }
    }

    /// Writes title and preamble: the name of the document first, the parties second.
    fn write_front(&mut self, items: &[Item]) {
        let mut front_items: Vec<&Item> =
            items.iter().filter(|item| matches!(item.section, Section::Title | Section::Preamble)).collect();
        front_items
            .sort_by_key(|item| (item.section, item.topic != Some(ContractTopic::Clause(Clause::Parties))));
        for item in front_items {
            self.write_item(item);
            self.text.push_str("\n\n");
        }
    }

    fn write_section(
        &mut self,
        layout: &Layout,
        number: usize,
        (section, heading): (Section, &str),
        items: &[&Item],
    ) {
        self.text.push_str(&layout.heading(number, section, heading));
        self.text.push_str("\n\n");
        for (index, item) in items.iter().enumerate() {
            let title = item.phrasing.title.as_deref();
            self.text.push_str(&layout.lead(number, index, section, title));
            self.write_item(item);
            self.text.push_str("\n\n");
        }
    }

    fn write_signatures(&mut self) {
        for (role, name) in [(Fact::Vendor, Fact::VendorName), (Fact::Customer, Fact::CustomerName)] {
            let role = self.style.write(self.facts.get(role), FactForm::Term);
            let name = self.style.write(self.facts.get(name), FactForm::Plain);
            self.text.push_str(&format!("{role}: {name}\nBy: ____________________\nName and title:\n\n"));
        }
    }

    fn write_item(&mut self, item: &Item) {
        let start = self.text.len();
        for piece in &item.phrasing.text.pieces {
            match piece {
                Piece::Words(words) => self.text.push_str(words),
                Piece::Fact(fact, form) => {
                    let fact_start = self.text.len();
                    self.text.push_str(&self.style.write(self.facts.get(*fact), *form));
                    // A party is named in every other sentence; its first mention is enough.
                    let spans = self.stated.entry(*fact).or_default();
                    if fact.kind() != FactKind::Role || spans.is_empty() {
                        spans.push(fact_start..self.text.len());
                    }
                }
            }
        }
        let span = TextSpan { start, end: self.text.len(), phrasing: item.phrasing.id.clone() };
        self.record(item, span);
    }

    fn record(&mut self, item: &Item, span: TextSpan) {
        for clause in &item.phrasing.holds {
            self.truth.clauses.push(Label { topic: *clause, span: span.clone() });
        }
        match item.topic {
            Some(ContractTopic::Clause(topic)) => self.truth.clauses.push(Label { topic, span }),
            Some(ContractTopic::Provision(topic)) => self.truth.provisions.push(Label { topic, span }),
            Some(ContractTopic::Problem(problem)) => {
                match self.truth.problems.iter_mut().find(|planted| planted.problem == problem) {
                    Some(planted) => planted.spans.push(span),
                    None => self.truth.problems.push(planted(problem, vec![span])),
                }
            }
            None if !item.about.is_empty() => {
                self.truth.near_misses.push(NearMiss { about: item.about.to_vec(), span });
            }
            None => {}
        }
    }

    fn finish(mut self, plan: &Plan, layout: &Layout) -> Contract {
        for problem in plan.problems.iter().filter(|problem| problem.is_absence()) {
            self.truth.problems.push(planted(*problem, Vec::new()));
        }
        self.truth.problems.sort_by_key(|planted| (std::cmp::Reverse(planted.severity), planted.problem));
        for (fact, spans) in self.stated {
            self.truth.facts.push(StatedFact { fact, value: self.facts.get(fact).clone(), spans });
        }
        self.truth.activation = activation(&self.truth);
        self.truth.risk_score = risk_score(plan.problems.iter().copied());
        self.truth.recommendation = Recommendation::for_score(self.truth.risk_score);
        Contract { text: layout.wrap(self.text), truth: self.truth }
    }
}

fn planted(problem: Problem, spans: Vec<TextSpan>) -> PlantedProblem {
    PlantedProblem { problem, severity: problem.severity(), spans }
}

fn activation(truth: &GroundTruth) -> Activation {
    let provision = |topic| truth.provisions.iter().any(|label| label.topic == topic);
    let problem = |topic| truth.has_problem(topic);
    let eu = provision(Provision::EuData)
        || problem(Problem::MissingDataProcessing)
        || problem(Problem::MissingTransferTerms);
    let california = provision(Provision::CaliforniaData) || problem(Problem::CcpaSale);
    let health = provision(Provision::HealthData) || problem(Problem::PhiWithoutBaa);
    Activation {
        personal_data: eu || california || health,
        eu,
        california,
        health,
        ip: truth.clauses.iter().any(|label| label.topic.section() == Section::Ip),
        money: provision(Provision::PaymentTerms) || problem(Problem::PaymentConflict),
    }
}
