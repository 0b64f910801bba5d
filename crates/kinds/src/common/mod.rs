//! Rules that several kinds share: pod templates, selectors, object references, ports, volumes, conditions.
