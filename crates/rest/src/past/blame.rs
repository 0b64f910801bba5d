//! Blame: which change gave each field of an object the value that it has.

use std::collections::BTreeMap;

use object::{Meta, Status, Value, value};

use super::changes::{kind, reply, state, summary};
use super::difference::fields;
use super::{Asker, blocking, unreadable};
use crate::reply::Reply;
use crate::scope::Scope;

/// How many changes are looked at. Fields that are older are said to be.
const LOOKED_AT_MAX: usize = 2000;
const READ_AT_ONCE: usize = 100;

/// The last change of each field of the current object.
pub async fn blame(scope: &Scope) -> Result<Reply, Status> {
    let storage = scope.storage()?;
    let info = &scope.call.info;
    let key = storage.key(&info.namespace, &info.name);
    let (archive, now) = Asker::of(scope).caught_up().await?;
    let current = state(scope, &key, now).await?;
    if current.is_null() {
        return Err(storage.not_found(&info.name).into());
    }
    let present = fields(&current);
    let mut unexplained: Vec<String> = present.keys().cloned().collect();
    let mut explained: BTreeMap<String, Value> = BTreeMap::new();
    let (mut until, mut looked_at) = (now, 0);
    'changes: while !unexplained.is_empty() && looked_at < LOOKED_AT_MAX {
        let (of_key, archive) = (key.clone(), archive.clone());
        let heads = blocking(move || archive.changes_of(&of_key, until, READ_AT_ONCE)).await.map_err(unreadable)?;
        let Some(last) = heads.last() else { break };
        until = last.revision - 1;
        for head in heads {
            looked_at += 1;
            let before = match state(scope, &key, head.revision - 1).await {
                Err(status) if status.code == 410 => break 'changes,
                other => other?,
            };
            // Each field that is still unexplained has the current value after this change.
            let had = fields(&before);
            let (older, changed): (Vec<_>, Vec<_>) =
                unexplained.into_iter().partition(|path| had.get(path) == present.get(path));
            explained.extend(changed.into_iter().map(|path| (path, summary(&head))));
            unexplained = older;
            if before.is_null() || unexplained.is_empty() {
                break 'changes;
            }
        }
    }
    let described: Vec<Value> = present
        .iter()
        .map(|(path, value)| {
            let mut field = value!({"path": (path.clone()), "value": ((*value).clone())});
            if let Some(change) = explained.remove(path) {
                field.set(&["change"], change);
            }
            field
        })
        .collect();
    let mut answer = value!({
        "metadata": {"name": (info.name.clone()), "uid": (current.uid()), "resourceVersion": (now.to_string())},
        "fields": described,
    });
    if !info.namespace.is_empty() {
        answer.set_meta_str("namespace", &info.namespace);
    }
    answer.set_type(&kind("Blame"));
    Ok(reply(scope, "Blame", &answer))
}
