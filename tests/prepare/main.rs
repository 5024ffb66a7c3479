//! `exp data prepare` as people see it: what comes out of which texts, what is refused, and what becomes of work that is
//! stopped, killed, or done twice.

mod common;
mod formats;
mod refusals;
mod resume;
