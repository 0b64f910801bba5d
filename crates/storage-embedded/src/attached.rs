//! What else is in the file of a backup: bytes under a name, of which the store knows nothing.

use std::path::Path;

use redb::{Database, ReadableDatabase, TableDefinition, TableError};

use crate::disk::catching;
use crate::error::OpenError;

const ATTACHED: TableDefinition<&str, &[u8]> = TableDefinition::new("attached");

/// Puts bytes into the file of a backup, which is not in use.
pub fn attach(backup: &Path, name: &str, bytes: &[u8]) -> Result<(), OpenError> {
    let file = files::open(backup).map_err(|error| OpenError::write(backup, error))?;
    let work = || {
        let database = Database::builder().create_file(file)?;
        let transaction = database.begin_write()?;
        transaction.open_table(ATTACHED)?.insert(name, bytes)?;
        transaction.commit()?;
        Ok(())
    };
    let written: Result<(), redb::Error> = catching(work).map_err(|panic| OpenError::corrupt(backup, panic))?;
    written.map_err(|error| OpenError::write(backup, crate::disk::describe(&error)))
}

/// What was put into the file under this name.
pub fn attached(backup: &Path, name: &str) -> Result<Option<Vec<u8>>, OpenError> {
    let work = || {
        let database = Database::builder().open_read_only(backup)?;
        let transaction = database.begin_read()?;
        match transaction.open_table(ATTACHED) {
            Ok(table) => Ok(table.get(name)?.map(|bytes| bytes.value().to_vec())),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    let found: Result<_, redb::Error> = catching(work).map_err(|panic| OpenError::corrupt(backup, panic))?;
    found.map_err(|error| OpenError::of_redb(backup, error))
}
