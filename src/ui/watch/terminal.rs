//! The loop of the live view, and the terminal while it has it. However it is left, by a key, a signal, an error or a
//! panic, the terminal gets its screen, its cursor and its modes back; and what others have to say meanwhile waits for a
//! line of the view, or until it is left, rather than run across it.

use std::{
    fs::File,
    io::{self, IsTerminal, Stdout, stdin, stdout},
    mem::ManuallyDrop,
    os::fd::AsFd,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender},
    },
    time::{Duration, Instant},
};

use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::{Hide, Show},
        event::{self, Event, KeyEventKind},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size},
    },
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use signal_hook::{
    consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP},
    iterator::Signals,
    low_level::emulate_default_handler,
};

use super::{
    draw::draw,
    scene::Scene,
    view::{Action, Look, News, Order, View},
};
use crate::base::{Context, Error, Exit, Result, machine};

/// How long to wait for a key before looking whether there are news or signals.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Columns of the terminal that results go to; `None` where they go elsewhere.
pub fn columns() -> Option<usize> {
    let (columns, _) = stdout().is_terminal().then(|| size().ok()).flatten()?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// Whether the view has the terminal.
static IS_LIVE: AtomicBool = AtomicBool::new(false);

/// What others said meanwhile.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps a line for people while the view has the terminal; `false` where it has not.
pub fn said_instead(line: &str) -> bool {
    let is_live = IS_LIVE.load(Ordering::SeqCst);
    if is_live {
        SAID.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
    }
    is_live
}

/// Gives the terminal back where the view has it. Returns what others said and nobody has read yet.
pub fn yield_terminal() -> Vec<String> {
    if IS_LIVE.swap(false, Ordering::SeqCst) {
        release();
    }
    said()
}

fn said() -> Vec<String> {
    std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A terminal that is gone cannot be set right.
fn release() {
    let _ = execute!(stdout(), Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

/// Has the terminal until it is dropped.
struct Taken {
    /// Its own drop shows the cursor, which [`release`] has done by then, and panics where the terminal is gone.
    screen: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    /// Where keys come from, unless that is standard input.
    keys: Option<File>,
}

impl Taken {
    fn take() -> io::Result<Self> {
        let keys = if stdin().is_terminal() { None } else { Some(File::open("/dev/tty")?) };
        enable_raw_mode()?;
        IS_LIVE.store(true, Ordering::SeqCst);
        let screen = execute!(stdout(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        if screen.is_err() {
            yield_terminal();
        }
        Ok(Self { screen: ManuallyDrop::new(screen?), keys })
    }

    /// Waits until there is a key to read, at most a [`TICK`]; `false` where the terminal is gone. Crossterm is asked only
    /// after that, since it would read from a terminal that is gone for ever.
    fn wait_for_key(&self) -> io::Result<bool> {
        let stdin = stdin();
        let keys = self.keys.as_ref().map_or(stdin.as_fd(), File::as_fd);
        let mut asked = [PollFd::from_borrowed_fd(keys, PollFlags::IN)];
        match poll(&mut asked, Some(&TICK)) {
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(!asked[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)),
        }
    }

    /// Takes it again from a shell that had it, whatever that has done to its modes.
    fn retake(&mut self) -> io::Result<()> {
        disable_raw_mode()?;
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        self.redraw()
    }

    /// Has all cells drawn anew the next time, whatever stands there.
    fn redraw(&mut self) -> io::Result<()> {
        let size = self.screen.size()?;
        self.screen.resize(size.into()) // unlike `clear`, this asks the terminal nothing
    }

    /// Lets the shell have the terminal until this process is to go on.
    fn suspend(&mut self) -> io::Result<()> {
        release();
        emulate_default_handler(SIGTSTP)?;
        self.retake()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if IS_LIVE.swap(false, Ordering::SeqCst) {
            release();
        }
    }
}

/// Shows scenes as they come, from `first` on, until a person leaves. Says through `orders` what is looked at, and what is
/// to be stopped.
///
/// # Errors
/// Where there is no terminal to be had, or it is gone.
pub fn live(first: Scene, news: &Receiver<News>, orders: &Sender<Order>, has_colour: bool) -> Result<Exit> {
    let heeded =
        [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT].into_iter().filter(|signal| !machine::ignores(*signal));
    let mut signals = Signals::new(heeded).doing(Exit::Unexpected, || "listening to signals".into())?;
    let mut taken = Taken::take().map_err(|e| {
        Error::new(Exit::Usage, "taking the terminal", e).hint("`exp watch | cat` prints how things stand, once")
    })?;
    let view = View::new(&first);
    let mut live = Live { scene: first, view, looked: Look::default(), told: None };
    match live.go_on(&mut taken, &mut signals, news, orders, has_colour) {
        Err(_) if !taken.wait_for_key().unwrap_or(false) => Ok(Exit::Interrupted), // it failed since its terminal is gone
        exit => exit.doing(Exit::Unexpected, || "showing runs on the terminal".into()),
    }
}

/// What is shown, and how it is looked at.
struct Live {
    scene: Scene,
    view: View,
    looked: Look,
    /// Since when the message stands there.
    told: Option<Instant>,
}

/// How long a message stands in the place of the keys.
const MESSAGE: Duration = Duration::from_secs(10);

impl Live {
    fn go_on(
        &mut self,
        taken: &mut Taken,
        signals: &mut Signals,
        news: &Receiver<News>,
        orders: &Sender<Order>,
        has_colour: bool,
    ) -> io::Result<Exit> {
        let mut is_stale = true;
        loop {
            is_stale |= self.heard(news);
            if self.told.take_if(|since| since.elapsed() > MESSAGE).is_some() {
                self.view.message = None;
                is_stale = true;
            }
            for signal in signals.pending() {
                match signal {
                    SIGTSTP => taken.suspend()?,
                    SIGCONT => taken.retake()?,
                    _ => return Ok(Exit::Interrupted),
                }
                is_stale = true;
            }
            if std::mem::take(&mut is_stale) {
                let mut look = Look::default();
                taken.screen.draw(|frame| look = draw(frame.buffer_mut(), &self.scene, &mut self.view, has_colour))?;
                if look != self.looked {
                    self.looked = look.clone();
                    let _ = orders.send(Order::Look(look)); // who fills scenes lives as long as we do
                }
            }
            if !taken.wait_for_key()? {
                return Ok(Exit::Interrupted);
            }
            while event::poll(Duration::ZERO)? {
                is_stale = true; // what was pressed together is shown together
                let Event::Key(key) = event::read()? else { continue };
                if key.kind == KeyEventKind::Release {
                    continue;
                }
                match self.view.key(key, &self.scene) {
                    None => {}
                    Some(Action::Quit) => return Ok(Exit::Done),
                    Some(Action::Suspend) => taken.suspend()?,
                    Some(Action::Redraw) => taken.redraw()?,
                    Some(Action::Cancel(run)) => {
                        let id = &run.to_string()[..self.scene.digits.clamp(1, 64)];
                        self.tell(format!("cancelling {id} …"));
                        let _ = orders.send(Order::Cancel(run));
                    }
                }
            }
        }
    }

    /// Takes in what has come. Returns whether anything has.
    fn heard(&mut self, news: &Receiver<News>) -> bool {
        let mut is_new = false;
        for news in news.try_iter() {
            is_new = true;
            match news {
                News::Scene(scene) => {
                    self.scene = *scene;
                    self.view.keep_selected(&self.scene);
                }
                News::Said(text) => self.tell(text),
            }
        }
        for line in said() {
            is_new = true;
            self.tell(line);
        }
        is_new
    }

    fn tell(&mut self, message: String) {
        self.view.message = Some(message);
        self.told = Some(Instant::now());
    }
}
