//! API Priority and Fairness: every request is matched to a FlowSchema and through it to a priority level, which gives it
//! a number of seats at once, lets it wait in a queue, or refuses it.
//!
//! Start with [`Flow::admit`]. The queues of one level are in [`queues`], the division of the server's seats among levels
//! in [`limits`], how many seats a request needs in [`estimate`]; [`turns`] keeps the order fair while requests wait for
//! the CPU instead of for seats.

mod by_kind;
mod configuration;
mod demand;
mod dropped;
mod dump;
mod estimate;
mod flow;
mod level;
mod limits;
mod matching;
mod numbers;
mod queues;
mod shuffle;
mod turns;
mod watches;

pub use configuration::{EXEMPT, FlowSchema, PriorityLevel};
pub use dump::LevelReport;
pub use estimate::{ListOptions, ObjectStats, Work};
pub use flow::{ADJUSTMENT_PERIOD, Admission, Away, Flow, FlowSettings, Rejected, Seats, WorkRequest};
pub use turns::Unstarted;
pub use watches::{WatchTicket, Watches};
