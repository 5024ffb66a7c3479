//! A terminal to start a program in: its keys, its signals, and what stands on its screen.

#![allow(dead_code)] // each test binary uses a part of it

use std::{
    io::{Read, Write},
    process::{Child, ExitStatus},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use pty_process::{
    Size,
    blocking::{Command, Pty, open},
};
use rustix::{
    process::{Pid, Signal, kill_process},
    termios::{LocalModes, tcgetattr},
};
use vt100::Parser;

/// A program in a terminal of its own. It ends with the test.
pub struct Terminal {
    pty: Option<Arc<Pty>>,
    is_gone: Arc<AtomicBool>,
    child: Child,
    screen: Arc<Mutex<Parser>>,
}

impl Terminal {
    /// Starts a program in a terminal of that size.
    pub fn start(command: std::process::Command, width: u16, height: u16) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(height, width)).unwrap();
        let child = Command::from(command).spawn(pts).unwrap();
        let rows = |n: u16| n.try_into().unwrap();
        let screen = Arc::new(Mutex::new(Parser::new(rows(height), rows(width), 0)));
        let (pty, shown) = (Arc::new(pty), Arc::clone(&screen));
        let reader = Arc::clone(&pty);
        let is_gone = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&is_gone);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Ends where the last program has closed the terminal.
            while let Ok(count @ 1..) = (&*reader).read(&mut bytes)
                && !is_over.load(Ordering::SeqCst)
            {
                shown.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self { pty: Some(pty), is_gone, child, screen }
    }

    fn pty(&self) -> &Pty {
        self.pty.as_ref().unwrap()
    }

    /// Closes the terminal, as a window is closed or a connection breaks. `key` is one that has the program draw something,
    /// so that nobody waits for that any more.
    pub fn hang_up(&mut self, key: &str) {
        self.is_gone.store(true, Ordering::SeqCst);
        self.press(key);
        self.pty = None;
    }

    pub fn press(&self, keys: &str) {
        self.pty().write_all(keys.as_bytes()).unwrap();
    }

    pub fn resize(&self, width: u16, height: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(height.try_into().unwrap(), width.try_into().unwrap());
        self.pty().resize(Size::new(height, width)).unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What stands on the screen.
    pub fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Whether the program has the screen for itself: another than the usual one, without a cursor, each key as it comes.
    pub fn is_taken(&self) -> bool {
        let (is_other, is_hidden) = {
            let parser = self.screen.lock().unwrap();
            (parser.screen().alternate_screen(), parser.screen().hide_cursor())
        };
        let modes = tcgetattr(self.pty()).unwrap().local_modes;
        let is_raw = !modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        is_other && is_hidden && is_raw
    }

    /// Whether nothing is left of that.
    pub fn is_given_back(&self) -> bool {
        let parser = self.screen.lock().unwrap();
        let modes = tcgetattr(self.pty()).unwrap().local_modes;
        let is_usual = modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        !parser.screen().alternate_screen() && !parser.screen().hide_cursor() && is_usual
    }

    /// Waits until something is so of the terminal.
    pub fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < Duration::from_secs(60), "waited too long until {what}:\n{}", self.text());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a text stands on the screen.
    pub fn until_shown(&self, text: &str) {
        self.until(&format!("{text:?} is shown"), |terminal| terminal.text().contains(text));
    }

    /// Waits until the program has ended.
    pub fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not end:\n{}", self.text());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
