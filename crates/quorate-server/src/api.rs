//! Table of all API operations: id, path, request and response schemas, required permission, and handler. Every route
//! is registered through this table, so every route is documented: the OpenAPI document is generated from it, and calls
//! without the required permission are refused by it.

#[cfg(feature = "schema")]
mod document;
mod type_schema;

use axum::Extension;
use axum::extract::Path;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use quorate_core::Permission;

use crate::app::App;
use crate::bulk;
use crate::call::{ApiResult, Call};

use type_schema::{Described, TypeSchema};

#[cfg(feature = "schema")]
pub(crate) use document::openapi_text;
pub(crate) use quorate_api::schema;

/// Access required by an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// No token required.
    Public,
    /// A token with a role that has this permission; see `quorate_core`'s permission table.
    Requires(Permission),
}

/// An API operation and its documentation.
#[derive(Clone)]
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    /// Path as documented in OpenAPI: `/v1/agents/{id}`.
    pub(crate) path: &'static str,
    /// `resource.verb`.
    pub(crate) id: &'static str,
    pub(crate) access: Access,
    /// Whether agents may call it only for themselves.
    own_agent_only: bool,
    documentation: Documentation,
}

/// Description of an operation in the OpenAPI document.
#[derive(Clone, Default)]
struct Documentation {
    /// One sentence, starting with an imperative verb.
    summary: &'static str,
    /// Path parameters: name, schema, description.
    path_parameters: Vec<(&'static str, TypeSchema, &'static str)>,
    query: Option<TypeSchema>,
    /// Operation-specific headers: name, schema, description.
    header_parameters: Vec<(&'static str, TypeSchema, &'static str)>,
    body: Option<TypeSchema>,
    /// Additional media type accepted for the body.
    additional_media_type: Option<&'static str>,
    responses: Vec<OperationResponse>,
    /// Reason why a writing operation accepts no idempotency key.
    no_key_reason: Option<&'static str>,
}

/// Success response of an operation.
#[derive(Clone)]
#[cfg_attr(not(feature = "schema"), expect(dead_code, reason = "only the OpenAPI document shows it"))]
struct OperationResponse {
    status: u16,
    description: &'static str,
    media_type: &'static str,
    schema: Option<TypeSchema>,
}

/// Operations and the handler that serves them.
pub(crate) struct Route {
    pub(crate) operations: Vec<Operation>,
    pub(crate) router_path: &'static str,
    pub(crate) handler: MethodRouter<App>,
}

/// A `GET` operation. Requires [`Permission::Read`] by default.
pub(crate) fn get(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new("get", path, id, summary, Access::Requires(Permission::Read))
}

/// A `POST` operation. Requires [`Permission::Work`] by default.
pub(crate) fn post(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new("post", path, id, summary, Access::Requires(Permission::Work))
}

/// A `PUT` operation. Requires [`Permission::Work`] by default.
pub(crate) fn put(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new("put", path, id, summary, Access::Requires(Permission::Work))
}

/// A `DELETE` operation. Requires [`Permission::Work`] by default.
pub(crate) fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation::new("delete", path, id, summary, Access::Requires(Permission::Work))
}

impl Operation {
    fn new(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        access: Access,
    ) -> Self {
        Self {
            method,
            path,
            id,
            access,
            own_agent_only: false,
            documentation: Documentation { summary, ..Documentation::default() },
        }
    }

    /// Makes the operation public: no token required.
    pub(crate) fn public(mut self) -> Self {
        self.access = Access::Public;
        self
    }

    /// Requires another permission.
    pub(crate) fn requires(mut self, permission: Permission) -> Self {
        self.access = Access::Requires(permission);
        self
    }

    /// Restricts agents to themselves: the `{id}` in the path must be the caller's own.
    pub(crate) fn own_agent_only(mut self) -> Self {
        self.own_agent_only = true;
        self
    }

    /// Accepts no idempotency key, for the given reason. Keys are stored with the change that a call makes, so this
    /// is only for calls that change nothing.
    pub(crate) fn without_key(mut self, reason: &'static str) -> Self {
        self.documentation.no_key_reason = Some(reason);
        self
    }

    /// Adds a path parameter.
    pub(crate) fn path_parameter<T: Described>(
        mut self,
        name: &'static str,
        description: &'static str,
    ) -> Self {
        self.documentation.path_parameters.push((name, TypeSchema::of::<T>(), description));
        self
    }

    /// Sets the query parameters: the fields of `T`.
    pub(crate) fn query_parameters<T: Described>(mut self) -> Self {
        self.documentation.query = Some(TypeSchema::fields_of::<T>());
        self
    }

    /// Adds an optional header that only this operation reads.
    pub(crate) fn header_parameter<T: Described>(
        mut self,
        name: &'static str,
        description: &'static str,
    ) -> Self {
        self.documentation.header_parameters.push((name, TypeSchema::of::<T>(), description));
        self
    }

    /// Sets the request body. The body may be omitted if `T` has no required field.
    pub(crate) fn request_body<T: Described>(mut self) -> Self {
        self.documentation.body = Some(TypeSchema::of::<T>());
        self
    }

    /// Accepts the request body in an additional media type.
    pub(crate) fn also_accepts(mut self, media_type: &'static str) -> Self {
        self.documentation.additional_media_type = Some(media_type);
        self
    }

    /// Adds a JSON response.
    pub(crate) fn returns<T: Described>(self, status: u16, description: &'static str) -> Self {
        self.add_response(status, description, "application/json", Some(TypeSchema::of::<T>()))
    }

    /// Adds a paginated list response, as written by [`crate::call::page_response`].
    pub(crate) fn returns_page<T: Described>(self, name: &'static str) -> Self {
        let description = "One page of results. Pass `cursor` to get the next page.";
        self.add_response(200, description, "application/json", Some(TypeSchema::page_of::<T>(name)))
    }

    /// Adds an unpaginated list response, as written by [`crate::call::NamedList`].
    pub(crate) fn returns_list<T: Described>(self, name: &'static str) -> Self {
        let schema = TypeSchema::list_of::<T>(name);
        self.add_response(200, "The complete list.", "application/json", Some(schema))
    }

    /// Adds a response in another media type, without a schema.
    pub(crate) fn returns_media(
        self,
        status: u16,
        description: &'static str,
        media_type: &'static str,
    ) -> Self {
        self.add_response(status, description, media_type, None)
    }

    /// Adds a response that streams JSON documents in the given media type.
    pub(crate) fn returns_stream<T: Described>(
        self,
        description: &'static str,
        media_type: &'static str,
    ) -> Self {
        self.add_response(200, description, media_type, Some(TypeSchema::stream_of::<T>()))
    }

    /// Adds an error status that is specific to this operation.
    pub(crate) fn returns_problem(self, status: u16, description: &'static str) -> Self {
        self.add_response(status, description, "application/problem+json", None)
    }

    fn add_response(
        mut self,
        status: u16,
        description: &'static str,
        media_type: &'static str,
        schema: Option<TypeSchema>,
    ) -> Self {
        self.documentation.responses.push(OperationResponse { status, description, media_type, schema });
        self
    }

    /// Sets the handler.
    pub(crate) fn handled_by<H, T>(self, handler: H) -> Route
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let router_path = self.path;
        self.handled_at(router_path, handler)
    }

    /// Sets the handler and runs it as a bulk read: for lists and other calls that scan or render a lot of data.
    pub(crate) fn handled_in_bulk_by<F, A>(self, handler: F) -> Route
    where
        F: Fn(Call) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = ApiResult> + Send + 'static,
    {
        self.handled_by(move |call: Call| bulk::run_as_bulk_read(call, handler))
    }

    /// Like [`Self::handled_in_bulk_by`], with a path parameter.
    pub(crate) fn handled_with_id_in_bulk_by<F, A>(self, handler: F) -> Route
    where
        F: Fn(Path<String>, Call) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = ApiResult> + Send + 'static,
    {
        self.handled_by(move |id: Path<String>, call: Call| {
            bulk::run_as_bulk_read(call, move |call| handler(id, call))
        })
    }

    /// Sets the handler at a router path that differs from the documented path.
    pub(crate) fn handled_at<H, T>(self, router_path: &'static str, handler: H) -> Route
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
        let handler = on(method, handler).route_layer(Extension(RouteAccess {
            access: self.access,
            own_agent_only: self.own_agent_only,
            has_query: self.documentation.query.is_some(),
            id: self.id,
            summary: self.documentation.summary,
        }));
        Route { operations: vec![self], router_path, handler }
    }
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
pub(crate) struct RouteAccess {
    pub(crate) access: Access,
    /// Whether agents may call it only for themselves.
    pub(crate) own_agent_only: bool,
    /// Whether the operation takes query parameters.
    pub(crate) has_query: bool,
    pub(crate) id: &'static str,
    /// Summary of the operation: a sentence that starts with a verb.
    pub(crate) summary: &'static str,
}
