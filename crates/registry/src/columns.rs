//! Cells that many tables share.

use object::timestamp::Time;
use object::{Meta, Value};

use crate::Context;

/// The Age cell: how long ago the object was created, as kubectl words it.
pub fn age(cx: &Context, object: &Value) -> Value {
    Value::from(since(cx, object.meta_str("creationTimestamp")))
}

/// The time since a timestamp, `<unknown>` if there is none.
pub fn since(cx: &Context, text: &str) -> String {
    match Time::parse(text) {
        Ok(Time(then)) => cx.now.since(then).human(),
        Err(_) => "<unknown>".to_string(),
    }
}
