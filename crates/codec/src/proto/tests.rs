//! Messages as upstream writes them.
