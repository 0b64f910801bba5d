//! The body of a restore.

use codec::Notes;
use object::labels::Selector;
use object::{Status, Value};
use storage::Revision;

use crate::options::WriteOptions;
use crate::scope::Scope;

/// The body of the request. Without a moment an object is brought back as it was before it was deleted.
#[derive(Default)]
pub struct RestoreOptions {
    /// A time, as the parameter `at` has it; "" for none.
    pub at: String,
    pub revision: Option<Revision>,
    /// Of a namespace: everything that was in it, too.
    pub contents: bool,
    /// Only these resources of the namespace, such as `configmaps` or `deployments.apps`; empty for all.
    pub resources: Vec<String>,
    /// Only objects of the namespace that had such labels; "" for all.
    pub label_selector: String,
    /// Whether what exists is left as it is.
    pub only_missing: bool,
    pub dry_run: bool,
    pub field_manager: String,
}

impl RestoreOptions {
    pub async fn read(scope: &Scope) -> Result<RestoreOptions, Status> {
        let write = WriteOptions::parse(&scope.call, "CreateOptions", false)?;
        let bytes = scope.read_body().await?;
        let mut options =
            RestoreOptions { dry_run: write.dry_run, field_manager: write.field_manager, ..Self::default() };
        if !bytes.is_empty() {
            let body = codec::json::decode(&bytes, None, &mut Notes::ignore());
            options.take(&body.map_err(|error| Status::bad_request(error.to_string()))?)?;
        }
        options.check(scope)?;
        Ok(options)
    }

    fn take(&mut self, body: &Value) -> Result<(), Status> {
        let wrong =
            |field: &str| Status::bad_request(format!("{} is not what a restore takes there", object::quote(field)));
        let fields = body.as_map().ok_or_else(|| Status::bad_request("a restore is an object in JSON"))?;
        for (field, value) in fields.iter() {
            let (text, is_true) = (value.as_str(), value.as_bool());
            let wrong = || wrong(field);
            match field {
                "apiVersion" | "kind" | "metadata" => {}
                "at" => self.at = text.ok_or_else(wrong)?.to_string(),
                "revision" => {
                    let revision = text.and_then(|text| text.parse().ok()).filter(|revision| *revision > 0);
                    self.revision = Some(revision.ok_or_else(wrong)?);
                }
                "contents" => self.contents = is_true.ok_or_else(wrong)?,
                "onlyMissing" => self.only_missing = is_true.ok_or_else(wrong)?,
                "labelSelector" => self.label_selector = text.ok_or_else(wrong)?.to_string(),
                "resources" => {
                    let list = value.as_list().ok_or_else(wrong)?;
                    let names: Option<Vec<String>> = list.iter().map(|name| Some(name.as_str()?.to_string())).collect();
                    self.resources = names.ok_or_else(wrong)?;
                }
                _ => return Err(Status::bad_request(format!("a restore has no field {}", object::quote(field)))),
            }
        }
        Ok(())
    }

    fn check(&self, scope: &Scope) -> Result<(), Status> {
        if self.revision.is_some() && !self.at.is_empty() {
            return Err(Status::bad_request("a restore has one moment: `at` or `revision`"));
        }
        let is_namespace = scope.resource.resource.resource == "namespaces" && scope.resource.resource.group.is_empty();
        if self.contents && !is_namespace {
            return Err(Status::bad_request("only a namespace has contents"));
        }
        if !self.contents && (!self.resources.is_empty() || !self.label_selector.is_empty()) {
            return Err(Status::bad_request(
                "`resources` and `labelSelector` choose among the contents of a namespace",
            ));
        }
        Selector::parse(&self.label_selector, None).map(drop).map_err(|why| Status::bad_request(why.to_string()))
    }
}
