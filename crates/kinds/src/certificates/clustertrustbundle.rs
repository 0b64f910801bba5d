//! ClusterTrustBundles: root certificates that workloads may trust.

use std::collections::BTreeMap;

use gox509::{Certificate, pem};
use object::{Cursor, Errors, Meta, Value};
use registry::{Context, Facts, FieldRefusal, Strategy};

use crate::common::checks::immutable_text;
use crate::common::signers;

const BUNDLE_MAX_BYTES: usize = 1024 * 1024;
const OMITTED: &str = "<value omitted>";

pub struct ClusterTrustBundle;

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    allows_unconditional_update: false,
    selectable_fields: object::strs!["spec.signerName"],
    field_refusal: FieldRefusal::Plain,
    ..Facts::WITHOUT_STATUS
};

impl Strategy for ClusterTrustBundle {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate_name(&self, _cx: &Context, object: &Value, name: &str, is_prefix: bool) -> Vec<String> {
        signers::trust_bundle_name(name, object.str_at(&["spec", "signerName"]), is_prefix)
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate_signer(object, errors);
        validate_bundle(&object.at(&["spec", "trustBundle"]), errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let (name, signer) = (new.at(&["metadata", "name"]), new.at(&["spec", "signerName"]));
        name.invalid_each(errors, signers::trust_bundle_name(name.str(), signer.str(), false));
        validate_signer(new, errors);
        let bundle = new.at(&["spec", "trustBundle"]);
        if bundle.str() != old.at(&["spec", "trustBundle"]).str() {
            validate_bundle(&bundle, errors);
        }
        immutable_text(&signer, &old.at(&["spec", "signerName"]), errors);
    }

    fn cells(&self, _cx: &Context, object: &Value) -> Vec<Value> {
        let signer = object.str_at(&["spec", "signerName"]);
        vec![object.name().into(), if signer.is_empty() { "<none>" } else { signer }.into()]
    }
}

fn validate_signer(object: &Cursor, errors: &mut Errors) {
    let signer = object.at(&["spec", "signerName"]);
    if !signer.is_empty() {
        signers::signer_name(&signer, errors);
    }
}

fn validate_bundle(bundle: &Cursor, errors: &mut Errors) {
    if bundle.str().len() > BUNDLE_MAX_BYTES {
        return errors.too_long(bundle.path(), BUNDLE_MAX_BYTES);
    }
    let blocks: Vec<pem::Block> = pem::blocks(bundle.str().as_bytes()).collect();
    let mut anchors: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    let mut fine = true;
    for (i, block) in blocks.iter().enumerate() {
        match problem(block) {
            Some(problem) => {
                fine = false;
                bundle.invalid_as(errors, OMITTED, format!("entry {i} {problem}"));
            }
            None => anchors.entry(&block.bytes).or_default().push(i),
        }
    }
    if !fine {
        return;
    }
    if anchors.is_empty() {
        bundle.invalid_as(errors, OMITTED, "at least one trust anchor must be provided");
    }
    for indices in anchors.values().filter(|indices| indices.len() > 1) {
        let indices: Vec<String> = indices.iter().map(ToString::to_string).collect();
        bundle.invalid_as(errors, OMITTED, format!("duplicate trust anchor (indices [{}])", indices.join(" ")));
    }
}

fn problem(block: &pem::Block) -> Option<String> {
    if block.label != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.label));
    }
    if block.has_headers {
        return Some("has PEM block headers".to_string());
    }
    let Ok(certificate) = Certificate::parse(&block.bytes) else {
        return Some("does not parse as X.509".to_string());
    };
    (!certificate.is_ca()).then(|| "does not have the CA bit set".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn bundles_are_checked() {
        let check = Check::new(ClusterTrustBundle, "{metadata: {name: a}}");
        let bad = "spec.trustBundle: Invalid value: \"<value omitted>\": ";
        check.create(&[
            ("", &format!("{bad}at least one trust anchor must be provided")),
            (
                "spec: {trustBundle: \"-----BEGIN X-----\\nYQ==\\n-----END X-----\\n-----BEGIN CERTIFICATE-----\\nYQ==\\n\
                 -----END CERTIFICATE-----\"}",
                &format!("{bad}entry 0 has bad block type: X\n{bad}entry 1 does not parse as X.509"),
            ),
        ]);
    }
}
