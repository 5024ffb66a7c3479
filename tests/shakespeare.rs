//! Tiny Shakespeare from the network and by hand. The network is a server on this machine, which behaves as badly as others
//! do. What needs the text itself reads `tinyshakespeare.txt` in `$EXP_TEXTS_DIR` (`../shared/data` by default).

mod lab;

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use exp::{
    base::{Exit, files},
    data::{
        fetch::{self, Copy, Remote},
        shakespeare,
    },
    event::{Event, Outcome},
    spec::identity::FrozenRun,
};
use lab::{Lab, Started, answer, events, until};

/// A server that answers each path in its own way, mostly with one text.
struct Server {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Server {
    fn of(text: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { address: listener.local_addr().unwrap(), asked: Arc::default(), is_over: Arc::default() };
        let (asked, is_over) = (server.asked.clone(), server.is_over.clone());
        let text: Arc<[u8]> = text.into().into();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok).take_while(|_| !is_over.load(SeqCst)) {
                asked.fetch_add(1, SeqCst);
                let text = text.clone();
                thread::spawn(move || serve(stream, &text));
            }
        });
        server
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How often somebody has connected.
    fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: TcpStream, text: &[u8]) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().unwrap_or(Ok(String::new()))?;
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    drop(lines);
    let (method, rest) = request.split_once(' ').unwrap_or_default();
    if method == "CONNECT" {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        return serve(stream, text);
    }
    let half = &text[..text.len() / 2];
    let head = |length: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    let mut send = |head: &str, body: &[u8]| stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    match rest.split(' ').next().unwrap_or_default() {
        "/good" => send(&head(text.len()), text),
        "/chunked" => {
            send(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", text.len()), text)?;
            send("", b"\r\n0\r\n\r\n")
        }
        "/plain" => send("HTTP/1.0 200 OK\r\n\r\n", text), // it ends with the connection
        "/cut" => send(&head(text.len()), half),
        "/short" => send(&head(half.len()), half),
        "/plain-cut" => send("HTTP/1.0 200 OK\r\n\r\n", half),
        "/wrong" => send(&head(text.len()), &[half, b"?", &text[half.len() + 1..]].concat()),
        "/long" => send(&head(text.len() + 1), &[text, b"!"].concat()),
        "/endless" => send("HTTP/1.0 200 OK\r\n\r\n", b"").and_then(|()| {
            loop {
                send("", text)?
            }
        }),
        "/missing" => send("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\n", b"none"),
        "/down" => send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", b""),
        "/empty" => send("HTTP/1.1 204 No Content\r\n\r\n", b""),
        "/moved" => {
            send("HTTP/1.1 302 Found\r\nLocation: /good\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", b"")
        }
        "/circle" => send(
            "HTTP/1.1 301 Moved Permanently\r\nLocation: /circle\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            b"",
        ),
        "/babble" => send("how do you do\r\n\r\n", b""),
        "/silent" => wait(&mut stream),
        "/stalled" => send(&head(text.len()), half).and_then(|()| wait(&mut stream)),
        "/slow" => send(&head(text.len()), b"").and_then(|()| {
            loop {
                send("", b"x")?;
                thread::sleep(Duration::from_millis(5));
            }
        }),
        _ => Ok(()),
    }
}

/// Until the other side goes away.
fn wait(stream: &mut TcpStream) -> io::Result<()> {
    stream.read(&mut [0]).map(drop)
}

/// A text of 300,002 bytes that is not Shakespeare's.
fn text() -> Vec<u8> {
    (0..33_334).flat_map(|n| format!("{n:8}\n").into_bytes()).chain(*b"end\n").skip(8).collect()
}

fn fetch_from(url: &str, text: &[u8], to: &Path) -> exp::base::Result<bool> {
    let (bytes, sha256, timeout) = (text.len() as u64, fetch::sha256(text), Duration::from_millis(700));
    Remote { name: "the text", url, bytes, sha256: &sha256, timeout }.fetch(to, &|| false)
}

/// What lies in a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = files::names(folder).unwrap().iter().map(|name| name.display().to_string()).collect();
    names.sort();
    names
}

#[test]
fn what_is_fetched_is_whole_or_an_error_says_why_not() {
    let (text, folder) = (text(), tempfile::tempdir().unwrap());
    let server = Server::of(text.clone());
    for path in ["/good", "/chunked", "/plain", "/moved"] {
        let to = folder.path().join(path.trim_start_matches('/')).join("deep").join("text");
        assert!(fetch_from(&server.url(path), &text, &to).unwrap(), "{path}");
        assert_eq!(fs::read(&to).unwrap(), text, "{path}");
        assert_eq!(names(to.parent().unwrap()), ["text", "text.lock"], "{path}");
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o644, "{path}: others may read it");
    }
    let halfway = "150,001 of 300,002 bytes";
    for (path, why) in [
        ("/cut", format!("it ended after {halfway}")),
        ("/short", format!("it ended after {halfway}")),
        ("/plain-cut", format!("it ended after {halfway}")),
        ("/wrong", format!("where 300,002 bytes with {} belong", fetch::sha256(&text))),
        ("/long", "it is longer than 300,002 bytes".into()),
        ("/endless", "it is longer than 300,002 bytes".into()),
        ("/missing", "the server answers 404 Not Found".into()),
        ("/down", "the server answers 503 Service Unavailable".into()),
        ("/empty", "the server answers 204 No Content".into()),
        ("/circle", "more than 5 times".into()),
        ("/stalled", format!("it stalled: nothing came for 0.7 s after {halfway}")),
        ("/silent", "no answer within 0.7 s".into()),
        ("/hangup", "the server hung up".into()),
        ("/babble", "".into()),
    ] {
        let to = folder.path().join("bad").join("text");
        let error = fetch_from(&server.url(path), &text, &to).unwrap_err();
        assert_eq!((error.exit, error.doing), (Exit::Spec, format!("downloading the text from {}", server.url(path))));
        assert!(error.why.contains(&why), "{path}: {}", error.why);
        assert_eq!(names(to.parent().unwrap()), ["text.lock"], "{path}: nothing is left aside");
    }
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, why) in [
        (format!("http://{gone}/"), "Connection refused"),
        ("ftp://127.0.0.1/text".into(), "an address begins with http:// or https://"),
        ("texts/input.txt".into(), "an address begins with http:// or https://"),
        (format!("https://{}/good", server.address), ""), // it does not speak TLS
    ] {
        let error = fetch_from(&url, &text, &folder.path().join("bad/text")).unwrap_err();
        assert!(error.exit == Exit::Spec && error.why.contains(why) && !error.why.is_empty(), "{url}: {error}");
    }
}

#[test]
fn many_fetch_at_once_and_one_downloads_and_a_copy_is_checked_when_it_is_used() {
    let (text, folder) = (text(), tempfile::tempdir().unwrap());
    let (server, to, start) = (Server::of(text.clone()), folder.path().join("text"), Barrier::new(8));
    let fetch = || fetch_from(&server.url("/good"), &text, &to).unwrap();
    let downloaded: Vec<bool> = thread::scope(|s| {
        let asking: Vec<_> = (0..8).map(|_| s.spawn(|| (start.wait(), fetch()).1)).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!((downloaded.iter().filter(|now| **now).count(), server.asked()), (1, 1));
    for damaged in [&text[1..], &[], &[b"?", &text[1..]].concat()] {
        fs::write(&to, damaged).unwrap();
        assert!(fetch() && !fetch());
        assert_eq!(fs::read(&to).unwrap(), text);
    }
    assert_eq!(server.asked(), 4);
    // What cannot be had leaves a damaged copy where it is, and is not taken for the text.
    fs::write(&to, "edited").unwrap();
    assert!(fetch_from(&server.url("/missing"), &text, &to).is_err());
    assert_eq!(fs::read(&to).unwrap(), b"edited");
    fs::remove_file(&to).unwrap();
    fs::create_dir(&to).unwrap();
    let error = fetch_from(&server.url("/good"), &text, &to).unwrap_err();
    assert!(error.exit == Exit::Store && error.why == "it is no regular file", "{error}");
}

#[test]
fn a_download_ends_when_somebody_asks_it_to() {
    let (text, folder) = (text(), tempfile::tempdir().unwrap());
    let (server, to, looks) = (Server::of(text.clone()), folder.path().join("text"), AtomicUsize::new(0));
    let (url, sha256) = (server.url("/slow"), fetch::sha256(&text));
    let timeout = Duration::from_secs(60);
    let remote = Remote { name: "the text", url: &url, bytes: text.len() as u64, sha256: &sha256, timeout };
    let error = remote.fetch(&to, &|| looks.fetch_add(1, SeqCst) > 3).unwrap_err();
    assert_eq!((error.exit, error.why.as_str()), (Exit::Interrupted, "asked to stop"));
    assert!(matches!(remote.copy(&to).unwrap(), Copy::Absent));
}

const SPEC: &str = "
model: {layers: 1, heads: 2, d_model: 16, context: 16}
data:
  corpus: shakespeare
train: {steps: 2, batch: 4}
eval: {every: 2, batches: 1, batch: 4}
run: {device: cpu}
";

/// A user: a folder with a spec, a root, and a cache folder.
struct User {
    lab: Lab,
    folder: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("spec.yaml"), SPEC).unwrap();
        Self { lab: Lab::at(folder.path()), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where their copy lies.
    fn copy(&self) -> PathBuf {
        self.path("user/shakespeare.txt")
    }

    /// `exp` as they run it, where Tiny Shakespeare is at that address.
    fn exp(&self, url: &str, arguments: &[&str]) -> Command {
        self.exp_in(&self.lab.path, url, arguments)
    }

    /// The same under another root.
    fn exp_in(&self, root: &Path, url: &str, arguments: &[&str]) -> Command {
        let mut command = Lab::at(root).exp(arguments);
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
            command.env_remove(name).env_remove(name.to_lowercase());
        }
        command.current_dir(self.folder.path()).env("EXP_CACHE", self.path("user"));
        command.env("EXP_SHAKESPEARE_URL", url).env("EXP_FETCH_TIMEOUT", "0.7");
        command
    }

    /// Exit code, standard output, standard error.
    fn answer(&self, url: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.exp(url, arguments).output().unwrap();
        let out = String::from_utf8(output.stdout.clone()).unwrap();
        let (code, said) = answer(output);
        (code, out, said)
    }
}

/// An address at which nobody answers.
const NOWHERE: &str = "http://127.0.0.1:1/";

/// The text itself.
fn shakespeare() -> Option<Vec<u8>> {
    let asked = std::env::var_os("EXP_TEXTS_DIR").map(PathBuf::from);
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let path = asked.unwrap_or(shared).join("tinyshakespeare.txt");
    let text = fs::read(&path).ok();
    if text.is_none() {
        eprintln!("skipped: there is no {}", path.display());
    }
    text
}

#[test]
fn a_spec_whose_text_cannot_be_had_says_so_where_it_names_it() {
    let (user, server) = (User::new(), Server::of(text()));
    for (url, why) in [
        (NOWHERE.to_owned(), "Connection refused"),
        (server.url("/missing"), "the server answers 404 Not Found"),
        (server.url("/stalled"), "it stalled: nothing came for 0.7 s after 150,001 of 1,115,394 bytes"),
        (server.url("/good"), "it ended after 300,002 of 1,115,394 bytes"),
    ] {
        for verb in ["plan", "run"] {
            let (code, out, said) = user.answer(&url, &[verb, "spec.yaml"]);
            assert_eq!((code, out.as_str()), (Some(3), ""), "{said}");
            let first = format!(
                "error: reading the spec spec.yaml: getting the corpus shakespeare: downloading Tiny Shakespeare from {url}: {why}"
            );
            assert!(said.starts_with(&first), "{said}");
            assert!(said.contains("4 |   corpus: shakespeare\n  |           ^^^^^^^^^^^\nhint: "), "{said}");
            assert!(said.contains("`exp data add shakespeare --from FILE`"), "{said}");
        }
    }
    let (code, _, said) = user.answer(NOWHERE, &["data", "add", "shakespeare"]);
    assert_eq!(code, Some(3));
    assert!(said.contains("Connection refused") && said.contains("--from FILE"), "{said}");
    assert_eq!(names(&user.path("user")), ["shakespeare.txt.lock"]);
}

#[test]
fn a_cache_folder_that_cannot_be_written_is_named_with_what_to_do() {
    let (user, server) = (User::new(), Server::of(text()));
    fs::write(user.path("file"), "").unwrap();
    for arguments in [&["plan", "spec.yaml"][..], &["data", "add", "shakespeare"]] {
        let mut command = user.exp(&server.url("/good"), arguments);
        let (code, said) = answer(command.env("EXP_CACHE", user.path("file/cache")).output().unwrap());
        assert_eq!(code, Some(5), "{said}");
        assert!(said.contains("file/cache") && said.contains("hint: EXP_CACHE names another folder"), "{said}");
    }
    assert_eq!(server.asked(), 0);
}

#[test]
fn what_is_not_shakespeare_is_not_added() {
    let user = User::new();
    fs::write(user.path("other.txt"), "To be\n").unwrap();
    fs::write(user.path("huge.txt"), vec![b'x'; 5_000_000]).unwrap();
    fs::create_dir(user.path("folder")).unwrap();
    assert!(Command::new("mkfifo").arg(user.path("pipe")).status().unwrap().success());
    let hash = fetch::sha256(b"To be\n");
    for (file, why) in [
        ("other.txt", format!("it has 6 bytes and the SHA-256 {hash}, where 1,115,394 bytes with 86c4e6aa")),
        ("huge.txt", "it has 5,000,000 bytes, and Tiny Shakespeare has 1,115,394".into()),
        ("folder", "it is a folder; a file is wanted here".into()),
        ("pipe", "it is no regular file".into()),
        ("missing.txt", "there is no such file".into()),
        ("other.txt/x", "Not a directory".into()),
    ] {
        let (code, out, said) = user.answer(NOWHERE, &["data", "add", "shakespeare", "--from", file]);
        assert_eq!((code, out.as_str()), (Some(3), ""), "{said}");
        assert!(said.starts_with(&format!("error: adding {file} as shakespeare: {why}")), "{said}");
    }
    let secret = user.path("other.txt");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&secret).is_err() {
        let (code, _, said) = user.answer(NOWHERE, &["data", "add", "shakespeare", "--from", "other.txt"]);
        assert!(code == Some(3) && said.contains("Permission denied"), "{said}"); // root may read everything
    }
    let (code, _, said) = user.answer(NOWHERE, &["data", "add", "milton"]);
    assert!(code == Some(2) && said.contains("milton") && said.contains("[possible values: shakespeare]"), "{said}");
    assert!(!user.path("user").exists());
}

#[test]
fn shakespeare_is_added_by_hand_where_there_is_no_network() {
    let Some(text) = shakespeare() else { return };
    let user = User::new();
    let plain = String::from_utf8(text.clone()).unwrap();
    for (content, slip) in [
        (plain.replace('\n', "\r\n"), "it is the same text but for its line ends\n"),
        (format!("\u{feff}{plain}"), "it is the same text but for a byte-order mark\n"),
        (plain.trim_end().to_owned(), "it is the same text but for line ends after the last line\n"),
        (format!("\u{feff}{}", plain.replace('\n', "\r")), "for a byte-order mark and its line ends\n"),
        (plain.replace("ROMEO", "Romeo"), "belong\n"),
    ] {
        fs::write(user.path("input.txt"), content).unwrap();
        let (code, _, said) = user.answer(NOWHERE, &["data", "add", "shakespeare", "--from", "input.txt"]);
        assert!(code == Some(3) && said.contains(slip), "{said}");
    }
    assert!(!user.path("user").exists());
    fs::write(user.path("input.txt"), &text).unwrap();
    for _ in 0..2 {
        let (code, out, said) = user.answer(NOWHERE, &["data", "add", "shakespeare", "--from", "input.txt"]);
        assert_eq!((code, said.as_str()), (Some(0), ""));
        assert!(out.contains(user.copy().to_str().unwrap()) && out.contains("whole (1,115,394 bytes"), "{out}");
    }
    assert_eq!(fs::read(user.copy()).unwrap(), text);
    let (code, _, said) = user.answer(NOWHERE, &["data", "add", "shakespeare"]);
    assert_eq!((code, said.as_str()), (Some(0), ""), "there is nothing to download");
    let (code, _, said) = user.answer(NOWHERE, &["run", "spec.yaml", "--no-report"]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn eight_processes_download_once_and_have_the_run_that_the_file_by_its_path_gives() {
    let Some(text) = shakespeare() else { return };
    assert_eq!(text.len() as u64, shakespeare::BYTES);
    assert_eq!(fetch::sha256(&text), shakespeare::SHA256);
    assert_eq!(blake3::hash(&text).to_hex().as_str(), shakespeare::BLAKE3);
    let (user, server) = (User::new(), Server::of(text.clone()));
    let url = server.url("/moved");
    let planning: Vec<_> = (0..8)
        .map(|n| {
            // Each has its own root, so that none finds the tokens of another.
            let mut plan = user.exp_in(&user.path(&format!("root-{n}")), &url, &["plan", "spec.yaml", "--json"]);
            plan.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let outputs: Vec<_> = planning.into_iter().map(|process| process.wait_with_output().unwrap()).collect();
    let said: Vec<String> = outputs.iter().map(|o| String::from_utf8_lossy(&o.stderr).into_owned()).collect();
    assert!(outputs.iter().all(|output| output.status.success()), "{said:?}");
    assert_eq!(said.iter().filter(|said| said.contains("downloaded Tiny Shakespeare to")).count(), 1, "{said:?}");
    assert_eq!(server.asked(), 2, "once at the address that leads on, once where it leads");
    assert!(outputs.iter().all(|output| output.stdout == outputs[0].stdout));

    let id = |out: &str| serde_json::from_str::<serde_json::Value>(out).unwrap()["runs"][0]["id"].to_string();
    fs::write(user.path("input.txt"), &text).unwrap();
    let by_path = user.answer(NOWHERE, &["plan", "spec.yaml", "--json", "--set", "data.path=input.txt"]).1;
    assert_eq!(id(std::str::from_utf8(&outputs[0].stdout).unwrap()), id(&by_path));
    assert_eq!(id(&by_path), OLD_ID, "runs that were trained before keep their names");

    // Where the tokens are, nobody needs the text.
    fs::remove_file(user.copy()).unwrap();
    let (code, _, said) = user.answer(NOWHERE, &["plan", "spec.yaml"]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert!(!user.copy().exists());

    // A copy that was changed is found when it is used.
    fs::write(user.copy(), &text[1..]).unwrap();
    let (code, _, said) = user.answer(&server.url("/good"), &["plan", "spec.yaml", "--set", "tokenizer=byte"]);
    assert_eq!(code, Some(0), "{said}");
    let note = "is not Tiny Shakespeare: it has 1,115,393 bytes instead of 1,115,394; it is downloaded again\n";
    assert!(said.contains(note) && said.contains("downloaded Tiny Shakespeare to"), "{said}");
    assert_eq!(fs::read(user.copy()).unwrap(), text);
}

/// The id that the run of the spec with `data.path` had before there was a download.
const OLD_ID: &str = "\"3a10ab2624f95c5e570cf1a810831c3d037891792e81b1eccf37a99432128959\"";

#[test]
fn a_proxy_is_used_for_what_is_not_on_this_machine() {
    let (user, proxy) = (User::new(), Server::of(text()));
    let mut command = user.exp("http://texts.example/good", &["data", "add", "shakespeare"]);
    let (code, said) = answer(command.env("HTTP_PROXY", proxy.url("")).output().unwrap());
    assert!(code == Some(3) && said.contains("it ended after 300,002 of 1,115,394 bytes"), "{said}");
    assert_eq!(proxy.asked(), 1);
    let server = Server::of(text());
    let mut command = user.exp(&server.url("/good"), &["data", "add", "shakespeare"]);
    answer(command.env("HTTP_PROXY", proxy.url("")).output().unwrap());
    assert_eq!((proxy.asked(), server.asked()), (1, 1));
}

#[test]
fn a_process_that_is_killed_leaves_nothing_in_the_way() {
    let (user, server) = (User::new(), Server::of(text()));
    let mut command = user.exp(&server.url("/slow"), &["data", "add", "shakespeare"]);
    let killed = Started(command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    until("it downloads", || (server.asked() == 1).then_some(()));
    drop(killed);
    let (code, _, said) = user.answer(&server.url("/missing"), &["data", "add", "shakespeare"]);
    assert!(code == Some(3) && said.contains("404 Not Found"), "{said}");
    assert_eq!(names(&user.path("user")), ["shakespeare.txt.lock"]);
}

#[test]
fn a_worker_that_lacks_the_text_downloads_it_and_leaves_when_it_is_asked_to() {
    let (user, server) = (User::new(), Server::of(text()));
    fs::write(user.path("other.txt"), "any text will do here\n".repeat(50)).unwrap();
    let spec = SPEC.replace("corpus: shakespeare", "corpus: shakespeare\n  path: other.txt");
    let id = lab::plan(&user.lab.root, &user.path("spec.yaml"), &spec).1.runs[0].frozen.id;
    let run = user.lab.root.run(&id);
    let mut frozen = FrozenRun::read(&run.config()).unwrap();
    frozen.config.data.path = None;
    files::write_json(&run.config(), &frozen).unwrap();

    let arguments = ["worker", "--run", run.path().to_str().unwrap(), "--attempt", "1", "--device", "cpu"];
    let mut worker = user.exp(&server.url("/slow"), &[&arguments[..], &["--threads", "1"]].concat());
    worker.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut worker = Started(worker.spawn().unwrap());
    until("it downloads", || (server.asked() == 1).then_some(()));
    worker.0.stdin.as_mut().unwrap().write_all(b"stop\n").unwrap();
    assert_eq!(worker.0.wait().unwrap().code(), Some(130));
    let last = events(&run, 1).pop();
    assert!(matches!(last, Some(Event::Finished { outcome: Outcome::Interrupted { step: 0 }, .. })), "{last:?}");
    let mut said = String::new();
    worker.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}
