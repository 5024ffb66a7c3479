//! Makes an index aside, whole before anybody sees it, and puts it in the place of whatever is there.

use std::{
    fs::{self, File},
    path::PathBuf,
};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::{Store, failed, schema};
use crate::base::{
    Context, Exit, Result,
    files::{self, Lock},
    folders::Root,
};

impl Store {
    /// Makes the index again from the folders alone. The old one is not read: it may be damaged, or of any version.
    ///
    /// # Errors
    /// [`Exit::Store`] where the new index cannot be written; the old one then stays.
    pub fn rebuild(root: &Root) -> Result<Self> {
        let mut aside = Aside::new(root)?;
        aside.store.sync()?;
        let lock = super::alone(root)?;
        aside.put_in_place(&lock)?;
        drop(lock);
        Self::open(root)
    }
}

/// Makes an index where there is none. Others wait for it: one that is not whole yet would tell them of some of the runs, as
/// if there were no more.
pub fn put_whole_one_in_place(root: &Root, lock: &Lock) -> Result<()> {
    let mut aside = Aside::new(root)?;
    aside.store.sync()?;
    aside.put_in_place(lock)
}

/// An index in a folder of its own under `runs/`, which goes away with it.
pub struct Aside {
    folder: TempDir,
    store: Store,
}

impl Aside {
    /// An empty index.
    pub fn new(root: &Root) -> Result<Self> {
        let make = || {
            files::make_folder(&root.runs())?;
            tempfile::Builder::new().prefix(files::ASIDE).tempdir_in(root.runs())
        };
        let folder = make().doing(Exit::Store, || format!("making an index in {}", root.runs().display()))?;
        let path = folder.path().join("exp.db");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let create = || {
            Connection::open_with_flags(schema::plain_name(&path), flags)?.pragma_update(None, "journal_mode", "wal")
        };
        create().map_err(|e| failed("making", &path, e))?;
        let store = Store::connect(root, path)?;
        // Nobody else sees it yet: it is made durable once, before it gets its name.
        store.read(|index| index.pragma_update(None, "synchronous", "off"))?;
        Ok(Self { folder, store })
    }

    /// Renames it over the root's index. The lock keeps others from opening either meanwhile.
    pub fn put_in_place(self, _lock: &Lock) -> Result<()> {
        let Self { folder, store } = self;
        let Store { root, path, connection, .. } = store;
        // Closing would do this too, but says nothing where the disk is too full for it.
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        connection.query_row(checkpoint, [], |_| Ok(())).map_err(|e| failed("writing", &path, e))?;
        connection.close().map_err(|(_, e)| failed("writing", &path, e))?;
        let rename = || {
            File::open(&path)?.sync_all()?;
            for log in ["-wal", "-shm"] {
                remove(schema::beside(&root.database(), log))?; // what it logs, the old index alone understands
            }
            fs::rename(&path, root.database())?;
            files::sync_folder(&root.runs())
        };
        rename().doing(Exit::Store, || format!("writing {}", root.database().display()))?;
        drop(folder);
        Ok(())
    }
}

fn remove(path: PathBuf) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
