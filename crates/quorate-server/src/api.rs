//! Table of all API operations: id, path, request and response schemas, required permission, and handler. Every route
//! is registered through this table, so every route is documented: `GET /v1/openapi.json` is generated from it, and
//! calls without the required permission are refused by it.

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
pub(crate) use quorate_api::schema;

/// Builds a schema on demand.
type Shape = Arc<dyn Fn(&mut SchemaGenerator) -> Schema + Send + Sync>;

fn shape_of<T: JsonSchema>() -> Shape {
    Arc::new(|generator| generator.subschema_for::<T>())
}

/// Access required by an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    /// No token required.
    Everybody,
    /// A token with a role that has this permission; see `quorate_core`'s permission table.
    Holders(Deed),
}

/// An API operation and its documentation.
#[derive(Clone)]
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    /// Path as documented in OpenAPI: `/v1/agents/{id}`.
    pub(crate) path: &'static str,
    /// `resource.verb`.
    pub(crate) id: &'static str,
    /// One sentence, starting with an imperative verb.
    pub(crate) about: &'static str,
    pub(crate) who: Who,
    /// Path parameters and their schemas.
    in_path: Vec<(&'static str, Shape)>,
    in_query: Option<Shape>,
    /// Operation-specific headers: name, schema, description.
    in_headers: Vec<(&'static str, Shape, &'static str)>,
    body: Option<Shape>,
    /// Additional media type accepted for the body.
    also_as: Option<&'static str>,
    answers: Vec<Answers>,
    /// Whether agents may call it only for themselves.
    itself: bool,
    /// Reason why a writing operation accepts no idempotency key.
    without_key: Option<&'static str>,
}

/// Success response of an operation.
#[derive(Clone)]
struct Answers {
    status: u16,
    about: &'static str,
    kind: &'static str,
    shape: Option<Shape>,
}

/// Operations and the handler that serves them.
pub(crate) struct Route {
    pub(crate) operations: Vec<Operation>,
    pub(crate) served_at: &'static str,
    pub(crate) handler: MethodRouter<App>,
}

/// A `GET` operation. Requires [`Permission::Read`] by default.
pub(crate) fn get(path: &'static str, id: &'static str, about: &'static str) -> Operation {
    Operation::new("get", path, id, about, Who::Holders(Deed::Read))
}

/// A `POST` operation. Requires [`Permission::Work`] by default.
pub(crate) fn post(path: &'static str, id: &'static str, about: &'static str) -> Operation {
    Operation::new("post", path, id, about, Who::Holders(Deed::Work))
}

/// A `PUT` operation. Requires [`Permission::Work`] by default.
pub(crate) fn put(path: &'static str, id: &'static str, about: &'static str) -> Operation {
    Operation::new("put", path, id, about, Who::Holders(Deed::Work))
}

/// A `DELETE` operation. Requires [`Permission::Work`] by default.
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

    /// Makes the operation public: no token required.
    pub(crate) fn open(mut self) -> Self {
        self.who = Who::Everybody;
        self
    }

    /// Requires another permission.
    pub(crate) fn is(mut self, deed: Deed) -> Self {
        self.who = Who::Holders(deed);
        self
    }

    /// Restricts agents to themselves: the `{id}` in the path must be the caller's own.
    pub(crate) fn for_itself(mut self) -> Self {
        self.itself = true;
        self
    }

    /// Accepts no idempotency key, for the given reason. Keys are stored with the change that a call makes, so this
    /// is only for calls that change nothing.
    pub(crate) fn without_key(mut self, reason: &'static str) -> Self {
        self.without_key = Some(reason);
        self
    }

    /// Adds a path parameter.
    pub(crate) fn path<T: JsonSchema>(mut self, name: &'static str) -> Self {
        self.in_path.push((name, shape_of::<T>()));
        self
    }

    /// Sets the query parameters: the fields of `T`.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.in_query = Some(Arc::new(|generator| T::json_schema(generator)));
        self
    }

    /// Adds an optional header that only this operation reads.
    pub(crate) fn header<T: JsonSchema>(mut self, name: &'static str, about: &'static str) -> Self {
        self.in_headers.push((name, shape_of::<T>(), about));
        self
    }

    /// Sets the request body. The body may be omitted if `T` has no required field.
    pub(crate) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(shape_of::<T>());
        self
    }

    /// Accepts the request body in an additional media type.
    pub(crate) fn also_as(mut self, kind: &'static str) -> Self {
        self.also_as = Some(kind);
        self
    }

    /// Adds a JSON response.
    pub(crate) fn answers<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        self.answering(status, about, "application/json", Some(shape_of::<T>()))
    }

    /// Adds a paginated list response, as written by [`crate::call::page_response`].
    pub(crate) fn lists<T: JsonSchema>(self, name: &'static str) -> Self {
        let shape = listed(name, shape_of::<T>(), true);
        self.answering(
            200,
            "One page of results. Pass `cursor` to get the next page.",
            "application/json",
            Some(shape),
        )
    }

    /// Adds an unpaginated list response, as written by [`crate::call::NamedList`].
    pub(crate) fn lists_all<T: JsonSchema>(self, name: &'static str) -> Self {
        let shape = listed(name, shape_of::<T>(), false);
        self.answering(200, "The complete list.", "application/json", Some(shape))
    }

    /// Adds a response in another media type, without a schema.
    pub(crate) fn answers_with(self, status: u16, about: &'static str, kind: &'static str) -> Self {
        self.answering(status, about, kind, None)
    }

    /// Adds a response that streams JSON documents in the given media type.
    pub(crate) fn streams<T: JsonSchema>(self, about: &'static str, kind: &'static str) -> Self {
        let document = shape_of::<T>();
        let shape: Shape = Arc::new(move |generator| {
            let document = document(generator);
            json_schema!({"type": "string", "contentMediaType": "application/json", "contentSchema": document})
        });
        self.answering(200, about, kind, Some(shape))
    }

    /// Adds an error status that is specific to this operation.
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

    /// Sets the handler.
    pub(crate) fn to<H, T>(self, handler: H) -> Route
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let served_at = self.path;
        self.answered_at(served_at, handler)
    }

    /// Sets the handler and runs it as a bulk read: for lists and other calls that scan or render a lot of data.
    pub(crate) fn bulk<F, A>(self, handler: F) -> Route
    where
        F: Fn(Call) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        self.to(move |call: Call| bulk::answer(call, handler))
    }

    /// Like [`Self::handled_in_bulk_by`], with a path parameter.
    pub(crate) fn bulk_of<F, A>(self, handler: F) -> Route
    where
        F: Fn(Path<String>, Call) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        self.to(move |id: Path<String>, call: Call| bulk::answer(call, move |call| handler(id, call)))
    }

    /// Sets the handler at a router path that differs from the documented path.
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
        // Permissions are checked where the token is read (`call.rs`), using this extension.
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
            let about = "Pass it to get the next page; `null` on the last page.";
            fields["cursor"] = json!({"type": ["string", "null"], "description": about});
            required.push("cursor");
        }
        json_schema!({"type": "object", "properties": fields, "required": required})
    })
}

impl Route {
    /// Documents another operation served by the same handler.
    pub(crate) fn and(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }
}

/// Access rules of the matched route, attached to each request.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) who: Who,
    /// Whether agents may call it only for themselves.
    pub(crate) itself: bool,
    /// Whether the operation takes query parameters.
    pub(crate) has_query: bool,
    pub(crate) id: &'static str,
}
