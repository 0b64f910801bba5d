//! The messages of OpenAPI 3, as far as the documents use them.

use super::{Message, Of, Rest, When, field, text};

pub static DOCUMENT: Message = Message {
    fields: &[
        text("openapi", 1),
        field("info", 2, Of::Message(&INFO)),
        field("paths", 4, Of::Message(&PATHS)),
        field("components", 5, Of::Message(&COMPONENTS)),
    ],
    rest: Rest::Extensions(9),
};

static INFO: Message = Message { fields: &[text("title", 1), text("version", 6)], rest: Rest::Dropped };

static PATHS: Message = Message { fields: &[], rest: Rest::Entries(1, Of::Message(&PATH)) };

static PATH: Message = Message {
    fields: &[
        field("get", 4, Of::Message(&OPERATION)),
        field("put", 5, Of::Message(&OPERATION)),
        field("post", 6, Of::Message(&OPERATION)),
        field("delete", 7, Of::Message(&OPERATION)),
        field("options", 8, Of::Message(&OPERATION)),
        field("head", 9, Of::Message(&OPERATION)),
        field("patch", 10, Of::Message(&OPERATION)),
        field("parameters", 13, Of::Each(&Of::OrReference(&Of::Message(&PARAMETER)))),
    ],
    rest: Rest::Extensions(14),
};

static OPERATION: Message = Message {
    fields: &[
        field("tags", 1, Of::Each(&Of::Text)),
        text("summary", 2),
        text("description", 3),
        text("operationId", 5),
        field("parameters", 6, Of::Each(&Of::OrReference(&Of::Message(&PARAMETER)))),
        field("requestBody", 7, Of::OrReference(&Of::Message(&BODY))),
        field("responses", 8, Of::Message(&RESPONSES)),
        field("deprecated", 10, Of::Flag),
    ],
    rest: Rest::Extensions(13),
};

static PARAMETER: Message = Message {
    fields: &[
        text("name", 1),
        text("in", 2),
        text("description", 3),
        field("required", 4, Of::Flag),
        field("schema", 10, Of::OrReference(&ANY_SCHEMA)),
    ],
    rest: Rest::Extensions(14),
};

static BODY: Message = Message {
    fields: &[text("description", 1), field("content", 2, Of::Message(&CONTENT)), field("required", 3, Of::Flag)],
    rest: Rest::Extensions(4),
};

static CONTENT: Message = Message { fields: &[], rest: Rest::Entries(1, Of::Message(&MEDIA)) };

static MEDIA: Message =
    Message { fields: &[field("schema", 1, Of::OrReference(&ANY_SCHEMA))], rest: Rest::Extensions(5) };

static RESPONSES: Message = Message { fields: &[], rest: Rest::Entries(2, Of::OrReference(&Of::Message(&RESPONSE))) };

static RESPONSE: Message = Message {
    fields: &[text("description", 1), field("content", 3, Of::Message(&CONTENT))],
    rest: Rest::Extensions(5),
};

static COMPONENTS: Message = Message {
    fields: &[field("schemas", 1, Of::Message(&SCHEMAS)), field("securitySchemes", 7, Of::Message(&SECURITY))],
    rest: Rest::Extensions(10),
};

static SCHEMAS: Message = Message { fields: &[], rest: Rest::Entries(1, Of::OrReference(&ANY_SCHEMA)) };

static ANY_SCHEMA: Of = Of::Message(&SCHEMA);

static SCHEMA: Message = Message {
    fields: &[
        field("nullable", 1, Of::Flag),
        field("example", 7, Of::Any),
        text("title", 9),
        field("multipleOf", 10, Of::Number),
        field("maximum", 11, Of::Number),
        field("exclusiveMaximum", 12, Of::Flag),
        field("minimum", 13, Of::Number),
        field("exclusiveMinimum", 14, Of::Flag),
        field("maxLength", 15, Of::Count),
        field("minLength", 16, Of::Count),
        text("pattern", 17),
        field("maxItems", 18, Of::Count),
        field("minItems", 19, Of::Count),
        field("uniqueItems", 20, Of::Flag),
        field("maxProperties", 21, Of::Count),
        field("minProperties", 22, Of::Count),
        field("required", 23, Of::Each(&Of::Text)),
        field("enum", 24, Of::Each(&Of::Any)),
        text("type", 25),
        field("allOf", 26, Of::Each(&Of::OrReference(&ANY_SCHEMA))),
        field("oneOf", 27, Of::Each(&Of::OrReference(&ANY_SCHEMA))),
        field("anyOf", 28, Of::Each(&Of::OrReference(&ANY_SCHEMA))),
        field("not", 29, Of::Message(&SCHEMA)),
        field("items", 30, Of::Wrapped(&Of::Each(&Of::OrReference(&ANY_SCHEMA)))),
        field("properties", 31, Of::Message(&SCHEMAS)),
        field(
            "additionalProperties",
            32,
            Of::Choice(&[(When::IsBool, 2, Of::Flag), (When::Always, 1, Of::OrReference(&ANY_SCHEMA))]),
        ),
        // There is no place for a default that is a list or an object.
        field(
            "default",
            33,
            Of::Choice(&[(When::IsNumber, 1, Of::Number), (When::IsBool, 2, Of::Flag), (When::IsText, 3, Of::Text)]),
        ),
        text("description", 34),
        text("format", 35),
    ],
    rest: Rest::Extensions(36),
};

static SECURITY: Message =
    Message { fields: &[], rest: Rest::Entries(1, Of::OrReference(&Of::Message(&SECURITY_SCHEME))) };

static SECURITY_SCHEME: Message = Message {
    fields: &[text("type", 1), text("description", 2), text("name", 3), text("in", 4)],
    rest: Rest::Extensions(9),
};
