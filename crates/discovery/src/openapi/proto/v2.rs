//! The messages of OpenAPI 2, as far as the document uses them.

use super::{Message, Of, Rest, When, field, text};

pub static DOCUMENT: Message = Message {
    fields: &[
        text("swagger", 1),
        field("info", 2, Of::Message(&INFO)),
        field("paths", 8, Of::Message(&PATHS)),
        field("definitions", 9, Of::Message(&SCHEMAS)),
        field("parameters", 10, Of::Message(&PARAMETERS)),
        field("security", 12, Of::Each(&Of::Message(&REQUIREMENT))),
        field("securityDefinitions", 13, Of::Message(&SECURITY)),
    ],
    rest: Rest::Extensions(16),
};

static INFO: Message = Message { fields: &[text("title", 1), text("version", 2)], rest: Rest::Extensions(7) };

static PATHS: Message = Message { fields: &[], rest: Rest::Entries(2, Of::Message(&PATH)) };

static PATH: Message = Message {
    fields: &[
        field("get", 2, Of::Message(&OPERATION)),
        field("put", 3, Of::Message(&OPERATION)),
        field("post", 4, Of::Message(&OPERATION)),
        field("delete", 5, Of::Message(&OPERATION)),
        field("options", 6, Of::Message(&OPERATION)),
        field("head", 7, Of::Message(&OPERATION)),
        field("patch", 8, Of::Message(&OPERATION)),
        field("parameters", 9, Of::Each(&Of::OrReference(&PARAMETER))),
    ],
    rest: Rest::Extensions(10),
};

static OPERATION: Message = Message {
    fields: &[
        field("tags", 1, Of::Each(&Of::Text)),
        text("summary", 2),
        text("description", 3),
        text("operationId", 5),
        field("produces", 6, Of::Each(&Of::Text)),
        field("consumes", 7, Of::Each(&Of::Text)),
        field("parameters", 8, Of::Each(&Of::OrReference(&PARAMETER))),
        field("responses", 9, Of::Message(&RESPONSES)),
        field("schemes", 10, Of::Each(&Of::Text)),
        field("deprecated", 11, Of::Flag),
    ],
    rest: Rest::Extensions(13),
};

static PARAMETER: Of = Of::Choice(PARAMETER_FORMS);

const PARAMETER_FORMS: &[(When, u32, Of)] =
    &[(When::In("body"), 1, Of::Message(&BODY_PARAMETER)), (When::Always, 2, Of::Choice(PLAIN_PARAMETER_FORMS))];

const PLAIN_PARAMETER_FORMS: &[(When, u32, Of)] =
    &[(When::In("query"), 3, Of::Message(&QUERY_PARAMETER)), (When::In("path"), 4, Of::Message(&PATH_PARAMETER))];

static PARAMETERS: Message = Message { fields: &[], rest: Rest::Entries(1, Of::Choice(PARAMETER_FORMS)) };

static BODY_PARAMETER: Message = Message {
    fields: &[
        text("description", 1),
        text("name", 2),
        text("in", 3),
        field("required", 4, Of::Flag),
        field("schema", 5, Of::Message(&SCHEMA)),
    ],
    rest: Rest::Extensions(6),
};

static QUERY_PARAMETER: Message = Message {
    fields: &[
        field("required", 1, Of::Flag),
        text("in", 2),
        text("description", 3),
        text("name", 4),
        text("type", 6),
        text("format", 7),
        field("uniqueItems", 20, Of::Flag),
    ],
    rest: Rest::Extensions(23),
};

static PATH_PARAMETER: Message = Message {
    fields: &[
        field("required", 1, Of::Flag),
        text("in", 2),
        text("description", 3),
        text("name", 4),
        text("type", 5),
        text("format", 6),
        field("uniqueItems", 19, Of::Flag),
    ],
    rest: Rest::Extensions(22),
};

static RESPONSES: Message = Message { fields: &[], rest: Rest::Entries(1, Of::OrReference(&Of::Message(&RESPONSE))) };

static RESPONSE: Message = Message {
    fields: &[text("description", 1), field("schema", 2, Of::Wrapped(&Of::Message(&SCHEMA)))],
    rest: Rest::Extensions(5),
};

static SCHEMAS: Message = Message { fields: &[], rest: Rest::Entries(1, Of::Message(&SCHEMA)) };

static SCHEMA: Message = Message {
    fields: &[
        text("$ref", 1),
        text("format", 2),
        text("title", 3),
        text("description", 4),
        field("default", 5, Of::Any),
        field("multipleOf", 6, Of::Number),
        field("maximum", 7, Of::Number),
        field("exclusiveMaximum", 8, Of::Flag),
        field("minimum", 9, Of::Number),
        field("exclusiveMinimum", 10, Of::Flag),
        field("maxLength", 11, Of::Count),
        field("minLength", 12, Of::Count),
        text("pattern", 13),
        field("maxItems", 14, Of::Count),
        field("minItems", 15, Of::Count),
        field("uniqueItems", 16, Of::Flag),
        field("maxProperties", 17, Of::Count),
        field("minProperties", 18, Of::Count),
        field("required", 19, Of::Each(&Of::Text)),
        field("enum", 20, Of::Each(&Of::Any)),
        field(
            "additionalProperties",
            21,
            Of::Choice(&[(When::IsBool, 2, Of::Flag), (When::Always, 1, Of::Message(&SCHEMA))]),
        ),
        field("type", 22, Of::Wrapped(&Of::Each(&Of::Text))),
        field("items", 23, Of::Wrapped(&Of::Each(&Of::Message(&SCHEMA)))),
        field("allOf", 24, Of::Each(&Of::Message(&SCHEMA))),
        field("properties", 25, Of::Message(&SCHEMAS)),
        field("example", 30, Of::Any),
    ],
    rest: Rest::Extensions(31),
};

static SECURITY: Message =
    Message { fields: &[], rest: Rest::Entries(1, Of::Choice(&[(When::Always, 2, Of::Message(&API_KEY))])) };

static API_KEY: Message =
    Message { fields: &[text("type", 1), text("name", 2), text("in", 3), text("description", 4)], rest: Rest::Dropped };

static REQUIREMENT: Message = Message { fields: &[], rest: Rest::Entries(1, Of::Wrapped(&Of::Each(&Of::Text))) };
