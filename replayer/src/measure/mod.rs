//! Counting and timing what one host sends and receives, in memory that does not follow the run's length.
//!
//! [`Meter`] is told of every frame by [`crate::engine`] and becomes the counts of a [`crate::outcome::HostOutcome`].
//! Nothing here allocates once every class of traffic has been seen, and nothing asks the time.

mod recorder;
mod sequence;
mod series;
mod meter;

pub use meter::{Arrived, Departed, Meter, Novelty, Sizes};
pub use recorder::Recorder;
pub use sequence::{Seen, SequenceWindow};
pub use series::Series;
