//! Resource names and amounts: `cpu`, `hugepages-2Mi`, `example.com/gpu`.
