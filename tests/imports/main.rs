//! Weights of other programs in and out: what is read from their files, what becomes of it in the real `exp`, and what is
//! written for them.

mod cli;
mod damage;
mod files;
mod foreign;
mod hostile;
#[path = "../lab/mod.rs"]
mod lab;
