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
    home: Section,
    phrasing: &'static Phrasing,
    /// Label of the item; `None` for near-misses and filler.
    topic: Option<ContractTopic>,
    /// Topics that a near-miss resembles.
    about: &'static [ContractTopic],
}

/// Composes the contract of a seed.
pub(super) fn compose(seed: u64, half: PhrasingSet) -> Contract {
    let plan = Plan::random(seed);
    let facts = FactValues::random(seed);
    let mut look = SeededRng::new(seed, "look");
    let style = Style::random(&mut look);
    let layout = Layout::random(&mut look);
    let mut wording = Wording::new(seed, half, &plan);
    wording.choose();
    let Wording { items, phrasings, mut draw, .. } = wording;
    let mut writer = Writer::new(seed, half, &facts, style);
    writer.write_front(&items);
    let mut number = 0;
    for home in &layout.sections {
        let section = in_order(&items, *home);
        if section.is_empty() {
            continue;
        }
        number += 1;
        let heading = draw.pick(&phrasings.headings[home]);
        writer.write_section(&layout, number, (*home, heading), &section);
    }
    writer.write_signatures();
    writer.finish(&plan, &layout)
}

/// Items of one section. An item that depends on a clause comes after it: an exception after its rule.
fn in_order(items: &[Item], home: Section) -> Vec<&Item> {
    let mut section: Vec<&Item> = items.iter().filter(|item| item.home == home).collect();
    section.sort_by_key(|item| match item.topic {
        Some(ContractTopic::Clause(clause)) if clause.depends_on().is_some() => 1,
        Some(ContractTopic::Problem(Problem::UncappedCustomerLiability)) => 1,
        _ => 0,
    });
    section
}

/// Selection of phrasings for a plan.
struct Wording<'a> {
    plan: &'a Plan,
    phrasings: &'static Phrasings,
    draw: SeededRng,
    items: Vec<Item>,
}

impl<'a> Wording<'a> {
    fn new(seed: u64, half: PhrasingSet, plan: &'a Plan) -> Self {
        let name = match half {
            PhrasingSet::Seen => "seen",
            PhrasingSet::Unseen => "unseen",
        };
        Self { plan, phrasings: half.phrasings(), draw: SeededRng::new(seed, name), items: Vec::new() }
    }

    fn choose(&mut self) {
        for problem in &self.plan.problems {
            if let Some(of) = self.phrasings.problems.get(problem) {
                let phrasing = self.draw.pick(of);
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
        self.draw.shuffle(&mut self.items);
    }

    /// Picks a phrasing that does not contain a clause that a problem replaces.
    fn pick_compatible(&mut self, of: &'static [Phrasing]) -> &'static Phrasing {
        let suits = |phrasing: &&Phrasing| !phrasing.holds.iter().any(|held| self.plan.excludes(*held));
        let suitable: Vec<&'static Phrasing> = of.iter().filter(suits).collect();
        suitable[self.draw.below(suitable.len())]
    }

    fn choose_near_misses(&mut self) {
        let mut near_misses: Vec<&'static UnlabelledText> = self.phrasings.near_misses.iter().collect();
        near_misses.retain(|aside| !aside.about.iter().any(|topic| self.has(*topic)));
        self.draw.shuffle(&mut near_misses);
        for aside in near_misses.into_iter().take(self.plan.near_misses) {
            let UnlabelledText { home, about, phrasing } = aside;
            self.items.push(Item { home: *home, phrasing, topic: None, about });
        }
    }

    fn choose_filler(&mut self) {
        let no_secrets = self.plan.problems.contains(&Problem::MissingConfidentiality);
        let mut filler: Vec<&'static UnlabelledText> = self.phrasings.filler.iter().collect();
        filler.retain(|aside| !(no_secrets && aside.home == Section::Confidentiality));
        self.draw.shuffle(&mut filler);
        let mut words: usize = self.items.iter().map(|item| words_in(item.phrasing)).sum();
        for UnlabelledText { home, phrasing, .. } in filler {
            if words < self.plan.words {
                words += words_in(phrasing);
                self.items.push(Item { home: *home, phrasing, topic: None, about: &[] });
            }
        }
    }

    fn push(&mut self, home: Section, phrasing: &'static Phrasing, topic: ContractTopic) {
        self.items.push(Item { home, phrasing, topic: Some(topic), about: &[] });
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
    fn new(seed: u64, half: PhrasingSet, facts: &'a FactValues, style: Style) -> Self {
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
            half,
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
        let mut front: Vec<&Item> =
            items.iter().filter(|item| matches!(item.home, Section::Title | Section::Preamble)).collect();
        front.sort_by_key(|item| (item.home, item.topic != Some(ContractTopic::Clause(Clause::Parties))));
        for item in front {
            self.write_item(item);
            self.text.push_str("\n\n");
        }
    }

    fn write_section(
        &mut self,
        layout: &Layout,
        number: usize,
        (home, heading): (Section, &str),
        items: &[&Item],
    ) {
        self.text.push_str(&layout.heading(number, home, heading));
        self.text.push_str("\n\n");
        for (index, item) in items.iter().enumerate() {
            let title = item.phrasing.title.as_deref();
            self.text.push_str(&layout.lead(number, index, home, title));
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
                    let begin = self.text.len();
                    self.text.push_str(&self.style.write(self.facts.get(*fact), *form));
                    // A party is named in every other sentence; its first mention is enough.
                    let spans = self.stated.entry(*fact).or_default();
                    if fact.kind() != FactKind::Role || spans.is_empty() {
                        spans.push(begin..self.text.len());
                    }
                }
            }
        }
        let place = TextSpan { start, end: self.text.len(), phrasing: item.phrasing.id.clone() };
        self.record(item, place);
    }

    fn record(&mut self, item: &Item, place: TextSpan) {
        for held in &item.phrasing.holds {
            self.truth.clauses.push(Label { what: *held, place: place.clone() });
        }
        match item.topic {
            Some(ContractTopic::Clause(what)) => self.truth.clauses.push(Label { what, place }),
            Some(ContractTopic::Provision(what)) => self.truth.provisions.push(Label { what, place }),
            Some(ContractTopic::Problem(problem)) => {
                match self.truth.problems.iter_mut().find(|planted| planted.problem == problem) {
                    Some(planted) => planted.places.push(place),
                    None => self.truth.problems.push(planted(problem, vec![place])),
                }
            }
            None if !item.about.is_empty() => {
                self.truth.near_misses.push(NearMiss { about: item.about.to_vec(), place });
            }
            None => {}
        }
    }

    fn finish(mut self, plan: &Plan, layout: &Layout) -> Contract {
        for problem in plan.problems.iter().filter(|problem| problem.is_absence()) {
            self.truth.problems.push(planted(*problem, Vec::new()));
        }
        self.truth.problems.sort_by_key(|planted| (std::cmp::Reverse(planted.severity), planted.problem));
        for (fact, places) in self.stated {
            self.truth.facts.push(StatedFact { fact, value: self.facts.get(fact).clone(), places });
        }
        self.truth.activation = activation(&self.truth);
        self.truth.risk_score = risk_score(plan.problems.iter().copied());
        self.truth.recommendation = Recommendation::for_score(self.truth.risk_score);
        Contract { text: layout.wrap(self.text), truth: self.truth }
    }
}

fn planted(problem: Problem, places: Vec<TextSpan>) -> PlantedProblem {
    PlantedProblem { problem, severity: problem.severity(), places }
}

fn activation(truth: &GroundTruth) -> Activation {
    let provision = |what| truth.provisions.iter().any(|present| present.what == what);
    let problem = |what| truth.has_problem(what);
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
        ip: truth.clauses.iter().any(|present| present.what.section() == Section::Ip),
        money: provision(Provision::PaymentTerms) || problem(Problem::PaymentConflict),
    }
}
