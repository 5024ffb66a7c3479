//! The processes of one side.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::{Case, Task, median};

/// One process that trains when told to.
struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// All processes of one side.
pub struct Side(Vec<Process>);

impl Side {
    /// PyTorch's.
    pub fn torch(case: &Case, python: &Path) -> Self {
        const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/vs_torch");
        let shape = [case.layers, case.heads, case.d_model, case.context];
        let (script, more) = match case.task {
            Task::Train => {
                ("torch_step.py", vec![case.batch.to_string(), case.vocab.to_string(), case.dropout.to_string()])
            }
            Task::Decode => ("hf_generate.py", vec![case.vocab.to_string()]),
        };
        Self::start(case.copies, || {
            let mut command = Command::new(python);
            command.arg(format!("{FOLDER}/{script}")).args(shape.map(|n| n.to_string())).args(&more);
            command.arg(case.threads.to_string());
            command
        })
    }

    /// Those of `exp`: this program as a worker.
    pub fn exp(case: &Case) -> Self {
        let program = std::env::current_exe().expect("this program's path");
        Self::start(case.copies, || {
            let mut command = Command::new(&program);
            command.args(["worker", case.name, &case.threads.to_string()]);
            command
        })
    }

    fn start(copies: usize, command: impl Fn() -> Command) -> Self {
        let start = |_| {
            let mut command = command();
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
            let (stdin, stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
            Process { child, stdin, stdout: BufReader::new(stdout) }
        };
        Self((0..copies).map(start).collect())
    }

    /// The ids of its processes.
    pub fn pids(&self) -> Vec<u32> {
        self.0.iter().map(|p| p.child.id()).collect()
    }

    /// Lets all processes train `steps` at once and returns the median of their steps in milliseconds.
    pub fn turn(&mut self, steps: usize) -> f64 {
        self.0.iter_mut().for_each(|p| writeln!(p.stdin, "{steps}").expect("a process that listens"));
        let times = self.0.iter_mut().flat_map(|p| p.answer());
        median(times.collect())
    }

    /// Ends all processes and returns the peak memory of all together in MiB.
    pub fn finish(mut self) -> f64 {
        self.0.iter_mut().for_each(|p| writeln!(p.stdin).expect("a process that listens"));
        let kib: f64 = self.0.iter_mut().flat_map(|p| p.answer()).sum();
        kib / 1024.0
    }
}

impl Process {
    /// The numbers of the next line.
    fn answer(&mut self) -> Vec<f64> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("an answer");
        line.split_whitespace().map(|n| n.parse().expect("a number")).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It ends at an empty line; one that could not be told is ended here.
        let _ = writeln!(self.stdin);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
