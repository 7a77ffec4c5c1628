//! Index relations.
use crate::error::Result;
/// The parsed form of a codelet's line.
#[derive(Debug)]
pub struct Relation;
impl Relation {
    /// Parses a line.
    pub fn parse(_line: &str) -> Result<Relation> {
        Ok(Relation)
    }
}
