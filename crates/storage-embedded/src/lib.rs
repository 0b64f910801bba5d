//! The default engine: redb behind one writer thread, one durable commit a group.
