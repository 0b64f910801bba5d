//! JSON, YAML, protobuf and CBOR to and from Value, driven by the schema; pure.
