//! Lists and watch events in JSON, written around objects that are encoded already.

use object::Value;
use schema::Schema;

use super::encode::encode;

/// What stands between two items of a list.
pub const LIST_COMMA: &[u8] = b",";

/// Appends everything in front of the items of a built-in list. `metadata` is the list's, with its schema.
pub fn write_list_head(api_version: &str, kind: &str, metadata: (&Value, Schema<'_>), out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":");
    object::write_json_string(kind, out);
    out.extend_from_slice(b",\"apiVersion\":");
    object::write_json_string(api_version, out);
    out.extend_from_slice(b",\"metadata\":");
    encode(metadata.0, Some(metadata.1), out);
    out.extend_from_slice(b",\"items\":[");
}

/// What follows the items of a built-in list, with the newline that ends every JSON answer.
pub const LIST_TAIL: &[u8] = b"]}\n";

/// Appends everything in front of the items of a list of custom objects, whose fields are sorted.
pub fn write_sorted_list_head(api_version: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"apiVersion\":");
    object::write_json_string(api_version, out);
    out.extend_from_slice(b",\"items\":[");
}

/// Appends what follows the items of a list of custom objects. Upstream always says `continue` there, be it empty.
pub fn write_sorted_list_tail(kind: &str, metadata: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(b"],\"kind\":");
    object::write_json_string(kind, out);
    out.extend_from_slice(b",\"metadata\":");
    encode(metadata, None, out);
    out.extend_from_slice(b"}\n");
}

/// What follows a watch event's object.
pub const WATCH_TAIL: &[u8] = b"}\n";
