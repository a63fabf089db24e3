//! The interface as a table: every call with its name, what goes in, what comes out, who may, and who answers it. There is no
//! other way to a route, so none is without its description: `GET /v1/openapi.json` is made from this table, and whoever
//! may not make a call is refused by it.

mod document;

use std::sync::Arc;

use axum::Extension;
use axum::extract::Path;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use quorate_core::Deed;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;

use crate::app::App;
use crate::bulk;
use crate::call::{Answer, Call};

pub(crate) use document::{about_the_hub, text};
pub(crate) use quorate_api::schema as words;

/// A schema, when it is asked for.
type Shape = Arc<dyn Fn(&mut SchemaGenerator) -> Schema + Send + Sync>;

fn shape_of<T: JsonSchema>() -> Shape {
    Arc::new(|generator| generator.subschema_for::<T>())
}

/// Who may make a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    /// Everybody who reaches the hub; there is no token to show.
    Everybody,
    /// Whoever has a token that is good for this kind of thing, as the table of rights says.
    Holders(Deed),
}

/// A call of the interface, described.
#[derive(Clone)]
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    /// As the description writes it: `/v1/agents/{id}`.
    pub(crate) path: &'static str,
    /// `noun.verb`.
    pub(crate) id: &'static str,
    /// One sentence.
    pub(crate) about: &'static str,
    pub(crate) who: Who,
    /// The parameters in the path, with their shapes.
    in_path: Vec<(&'static str, Shape)>,
    in_query: Option<Shape>,
    /// Headers of its own, with their shapes and what they say.
    in_headers: Vec<(&'static str, Shape, &'static str)>,
    body: Option<Shape>,
    /// Another media type in which it may be sent.
    also_as: Option<&'static str>,
    answers: Vec<Answers>,
    /// Whether an agent may make it for itself only.
    itself: bool,
    /// Why it takes no idempotency key, if it writes and does not.
    without_key: Option<&'static str>,
}

/// What a call is answered with if all is well.
#[derive(Clone)]
struct Answers {
    status: u16,
    about: &'static str,
    kind: &'static str,
    shape: Option<Shape>,
}

/// A call and who answers it.
pub(crate) struct Route {
    pub(crate) operations: Vec<Operation>,
    pub(crate) served_at: &'static str,
    pub(crate) handler: MethodRouter<App>,
}

/// A `GET`. Everybody with a token may make it, unless it says otherwise.
pub(crate) fn get(path: &'static str, id: &'static str, about: &'static str) -> Operation {
    Operation::new("get", path, id, about, Who::Holders(Deed::Read))
}

/// A `POST`: part of an agent's work, unless it says otherwise.
pub(crate) fn post(path: &'static str, id: &'static str, about: &'static str) -> Operation {
    Operation::new("post", path, id, about, Who::Holders(Deed::Work))
}

/// A `PUT`: part of an agent's work, unless it says otherwise.
pub(crate) fn put(path: &'static str, id: &'static str, about: &'static str) -> Operation {
    Operation::new("put", path, id, about, Who::Holders(Deed::Work))
}

/// A `DELETE`: part of an agent's work, unless it says otherwise.
pub(crate) fn delete(path: &'static str, id: &'static str, about: &'static str) -> Operation {
    Operation::new("delete", path, id, about, Who::Holders(Deed::Work))
}

impl Operation {
    fn new(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        about: &'static str,
        who: Who,
    ) -> Self {
        Self {
            method,
            path,
            id,
            about,
            who,
            in_path: Vec::new(),
            in_query: None,
            in_headers: Vec::new(),
            body: None,
            also_as: None,
            answers: Vec::new(),
            itself: false,
            without_key: None,
        }
    }

    /// Needs no token.
    pub(crate) fn open(mut self) -> Self {
        self.who = Who::Everybody;
        self
    }

    /// Is a deed of another kind.
    pub(crate) fn is(mut self, deed: Deed) -> Self {
        self.who = Who::Holders(deed);
        self
    }

    /// An agent may make it for itself only: the `{id}` of the path is its own.
    pub(crate) fn for_itself(mut self) -> Self {
        self.itself = true;
        self
    }

    /// Takes no idempotency key, and why: a key is stored with what a call changes, so this is for what changes nothing.
    pub(crate) fn without_key(mut self, reason: &'static str) -> Self {
        self.without_key = Some(reason);
        self
    }

    /// A parameter in the path.
    pub(crate) fn path<T: JsonSchema>(mut self, name: &'static str) -> Self {
        self.in_path.push((name, shape_of::<T>()));
        self
    }

    /// What may stand behind the question mark: the fields of this type.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.in_query = Some(Arc::new(|generator| T::json_schema(generator)));
        self
    }

    /// A header that means something to this call only. It may be left out, as far as the description says.
    pub(crate) fn header<T: JsonSchema>(mut self, name: &'static str, about: &'static str) -> Self {
        self.in_headers.push((name, shape_of::<T>(), about));
        self
    }

    /// What is sent. It may be left out if no field of it is required.
    pub(crate) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(shape_of::<T>());
        self
    }

    /// What is sent may come in another media type, too.
    pub(crate) fn also_as(mut self, kind: &'static str) -> Self {
        self.also_as = Some(kind);
        self
    }

    /// What comes back, as JSON.
    pub(crate) fn answers<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        self.answering(status, about, "application/json", Some(shape_of::<T>()))
    }

    /// What comes back: a page of a list under its name, as [`crate::call::Listed`] writes it.
    pub(crate) fn lists<T: JsonSchema>(self, name: &'static str) -> Self {
        let shape = listed(name, shape_of::<T>(), true);
        self.answering(200, "One page; with the cursor the list goes on.", "application/json", Some(shape))
    }

    /// What comes back: a list under its name, all of it.
    pub(crate) fn lists_all<T: JsonSchema>(self, name: &'static str) -> Self {
        let shape = listed(name, shape_of::<T>(), false);
        self.answering(200, "All of them.", "application/json", Some(shape))
    }

    /// What comes back, as something else.
    pub(crate) fn answers_with(self, status: u16, about: &'static str, kind: &'static str) -> Self {
        self.answering(status, about, kind, None)
    }

    /// A stream of JSON documents, in a media type of its own.
    pub(crate) fn streams<T: JsonSchema>(self, about: &'static str, kind: &'static str) -> Self {
        let document = shape_of::<T>();
        let shape: Shape = Arc::new(move |generator| {
            let document = document(generator);
            json_schema!({"type": "string", "contentMediaType": "application/json", "contentSchema": document})
        });
        self.answering(200, about, kind, Some(shape))
    }

    /// A problem that only this call has.
    pub(crate) fn problem(self, status: u16, about: &'static str) -> Self {
        self.answering(status, about, "application/problem+json", None)
    }

    fn answering(
        mut self,
        status: u16,
        about: &'static str,
        kind: &'static str,
        shape: Option<Shape>,
    ) -> Self {
        self.answers.push(Answers { status, about, kind, shape });
        self
    }

    /// Who answers it.
    pub(crate) fn to<H, T>(self, handler: H) -> Route
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let served_at = self.path;
        self.answered_at(served_at, handler)
    }

    /// Who answers it, as a bulk read: for lists, and whatever else scans or renders a lot.
    pub(crate) fn bulk<F, A>(self, handler: F) -> Route
    where
        F: Fn(Call) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        self.to(move |call: Call| bulk::answer(call, handler))
    }

    /// The same with a parameter in the path.
    pub(crate) fn bulk_of<F, A>(self, handler: F) -> Route
    where
        F: Fn(Path<String>, Call) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        self.to(move |id: Path<String>, call: Call| bulk::answer(call, move |call| handler(id, call)))
    }

    /// Who answers it, at a path that the router writes in another way than the description.
    pub(crate) fn answered_at<H, T>(self, served_at: &'static str, handler: H) -> Route
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let method = match self.method {
            "get" => MethodFilter::GET,
            "put" => MethodFilter::PUT,
            "delete" => MethodFilter::DELETE,
            _ => MethodFilter::POST,
        };
        // Who may is checked where the token is read (`call.rs`), by what the route says here.
        let handler = on(method, handler).route_layer(Extension(Asked {
            who: self.who,
            itself: self.itself,
            has_query: self.in_query.is_some(),
            id: self.id,
        }));
        Route { operations: vec![self], served_at, handler }
    }
}

fn listed(name: &'static str, item: Shape, has_pages: bool) -> Shape {
    Arc::new(move |generator| {
        let item = item(generator);
        let mut fields = json!({name: {"type": "array", "items": item}});
        let mut required = vec![name];
        if has_pages {
            fields["cursor"] = json!({"type": ["string", "null"], "description": "null: there is no more."});
            required.push("cursor");
        }
        json_schema!({"type": "object", "properties": fields, "required": required})
    })
}

impl Route {
    /// The same handler answers this as well.
    pub(crate) fn and(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }
}

/// What was called, for whoever looks who may.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) who: Who,
    /// Whether an agent may make it for itself only.
    pub(crate) itself: bool,
    /// Whether anything may stand behind the question mark.
    pub(crate) has_query: bool,
    pub(crate) id: &'static str,
}
