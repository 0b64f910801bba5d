//! Value, metadata, GVK/GVR, selectors, field paths, quantities, times, Status.
