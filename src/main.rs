//! The `exp` binary: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    exp::cli::main()
}
