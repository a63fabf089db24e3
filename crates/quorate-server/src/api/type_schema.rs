//! JSON Schemas of the parameters, bodies and responses in the route table.
//!
//! Only the OpenAPI document needs them. It is checked in, and a test with the feature `schema` compares it with the
//! types. Without the feature a schema is empty and every type has one, so that the route table compiles unchanged
//! and no schema code is compiled.

#[cfg(not(feature = "schema"))]
pub(super) use absent::{Described, TypeSchema};
#[cfg(feature = "schema")]
pub(super) use generated::{Described, TypeSchema};

#[cfg(feature = "schema")]
mod generated {
    use std::sync::Arc;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use serde_json::json;

    /// A type with a JSON Schema.
    pub(crate) trait Described: JsonSchema {}

    impl<T: JsonSchema> Described for T {}

    /// JSON Schema of a type, generated on demand.
    #[derive(Clone)]
    pub(crate) struct TypeSchema(Arc<dyn Fn(&mut SchemaGenerator) -> Schema + Send + Sync>);

    impl TypeSchema {
        /// Returns a reference to the schema of `T`, or the schema itself if it has no name.
        pub(crate) fn of<T: Described>() -> Self {
            Self(Arc::new(|generator| generator.subschema_for::<T>()))
        }

        /// Returns the schema of `T` itself, never a reference to it.
        pub(crate) fn fields_of<T: Described>() -> Self {
            Self(Arc::new(|generator| T::json_schema(generator)))
        }

        /// Returns the schema of an object with a list of `T` in the field `name`.
        pub(crate) fn list_of<T: Described>(name: &'static str) -> Self {
            Self(Arc::new(move |generator| {
                let items = generator.subschema_for::<T>();
                let fields = json!({name: {"type": "array", "items": items}});
                json_schema!({"type": "object", "properties": fields, "required": [name]})
            }))
        }

        /// Like [`Self::list_of`], with the cursor of the next page.
        pub(crate) fn page_of<T: Described>(name: &'static str) -> Self {
            Self(Arc::new(move |generator| {
                let items = generator.subschema_for::<T>();
                let description = "Pass it to get the next page; `null` on the last page.";
                let fields = json!({
                    name: {"type": "array", "items": items},
                    "cursor": {"type": ["string", "null"], "description": description},
                });
                json_schema!({"type": "object", "properties": fields, "required": [name, "cursor"]})
            }))
        }

        /// Returns the schema of a text that streams JSON documents of type `T`.
        pub(crate) fn stream_of<T: Described>() -> Self {
            Self(Arc::new(|generator| {
                let document = generator.subschema_for::<T>();
                json_schema!({"type": "string", "contentMediaType": "application/json", "contentSchema": document})
            }))
        }

        /// Generates the schema.
        pub(crate) fn generate(&self, generator: &mut SchemaGenerator) -> Schema {
            (self.0)(generator)
        }
    }
}

#[cfg(not(feature = "schema"))]
mod absent {
    /// Any type.
    pub(crate) trait Described {}

    impl<T> Described for T {}

    /// No schema.
    #[derive(Clone)]
    pub(crate) struct TypeSchema;

    impl TypeSchema {
        pub(crate) fn of<T: Described>() -> Self {
            Self
        }

        pub(crate) fn fields_of<T: Described>() -> Self {
            Self
        }

        pub(crate) fn list_of<T: Described>(_name: &'static str) -> Self {
            Self
        }

        pub(crate) fn page_of<T: Described>(_name: &'static str) -> Self {
            Self
        }

        pub(crate) fn stream_of<T: Described>() -> Self {
            Self
        }
    }
}
