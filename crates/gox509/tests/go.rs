//! What Go's `encoding/pem` and `crypto/x509` answered for generated texts, certificates and chains, written by
//! `conformance/x509`. `GOX509_PEM=<file>` and `GOX509_CHAINS=<file>` play other files.

#![allow(clippy::disallowed_methods, clippy::panic, clippy::unwrap_used)]

use std::io::Read;

use flate2::read::GzDecoder;
use gox509::{Certificate, ExtendedUsage, Options, Pool, pem};
use serde_json::Value;

/// The facts in the file that a variable names, or in our own.
fn facts(variable: &str, own: &str) -> Vec<Value> {
    let own = format!("{}/testdata/{own}", env!("CARGO_MANIFEST_DIR"));
    let path = std::env::var(variable).unwrap_or(own);
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn hex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Compares all answers and shows the first ones that differ.
fn check(wrong: &[String], count: usize) {
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
    assert!(count > 1000, "only {count} facts were played");
}

#[test]
fn pem_blocks_are_gos() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for fact in facts("GOX509_PEM", "pem.jsonl.gz") {
        count += 1;
        let text = hex(fact["t"].as_str().unwrap());
        let wanted: Vec<pem::Block> = fact["b"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| pem::Block {
                label: block[0].as_str().unwrap().to_string(),
                has_headers: block[1] != "",
                bytes: hex(block[2].as_str().unwrap()),
            })
            .collect();
        let found: Vec<pem::Block> = pem::blocks(&text).collect();
        if found != wanted {
            wrong.push(format!("{:?}: {found:?}, want {wanted:?}", String::from_utf8_lossy(&text)));
        }
    }
    check(&wrong, count);
}

#[test]
fn chains_are_gos() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (number, world) in facts("GOX509_CHAINS", "chains.jsonl.gz").iter().enumerate() {
        let mut differs = |what: &str, found: &str, wanted: &str| {
            count += 1;
            if found != wanted {
                wrong.push(format!("world {number}, {what}: {found}, want {wanted}"));
            }
        };
        let texts: Vec<&str> = strings(&world["c"]);
        let parsed: Vec<Result<Certificate, String>> = texts.iter().map(|der| Certificate::parse(&hex(der))).collect();
        for (at, (certificate, wanted)) in parsed.iter().zip(strings(&world["e"])).enumerate() {
            let error = certificate.as_ref().err().map_or("", String::as_str);
            differs(&format!("certificate {at}"), error, wanted);
        }
        let certificates: Vec<Option<&Certificate>> = parsed.iter().map(|parsed| parsed.as_ref().ok()).collect();
        for fact in world["v"].as_array().unwrap() {
            let wanted = &fact[6];
            let wanted = wanted.as_str().map_or_else(|| wanted.to_string(), str::to_string);
            differs(&format!("verification {fact}"), &verified(&certificates, fact), &wanted);
        }
        for fact in world["h"].as_array().unwrap() {
            let Some(certificate) = certificates[place(&fact[0])] else { continue };
            let answer = certificate.verify_host(fact[1].as_str().unwrap());
            let answer = answer.err().map(|why| why.to_string()).unwrap_or_default();
            differs(&format!("host {fact}"), &answer, fact[2].as_str().unwrap());
        }
    }
    check(&wrong, count);
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

fn place(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// The chains as lists of places, or the error.
fn verified(certificates: &[Option<&Certificate>], fact: &Value) -> String {
    let pool =
        |list: &Value| Pool::new(list.as_array().unwrap().iter().filter_map(|at| certificates[place(at)].cloned()));
    let Some(leaf) = certificates[place(&fact[0])] else { return "cannot be read".into() };
    let usage = match fact[4].as_str().unwrap() {
        "server" => ExtendedUsage::ServerAuth,
        "client" => ExtendedUsage::ClientAuth,
        _ => ExtendedUsage::Any,
    };
    let (roots, intermediates) = (pool(&fact[1]), pool(&fact[2]));
    let options = Options {
        roots: &roots,
        intermediates: &intermediates,
        now: fact[3].as_i64().unwrap(),
        usage,
        host: fact[5].as_str(),
    };
    let place = |certificate: &Certificate| {
        certificates.iter().position(|known| known.is_some_and(|known| known.raw == certificate.raw)).unwrap()
    };
    match leaf.verify(&options) {
        Ok(chains) => {
            let chains: Vec<Vec<usize>> =
                chains.iter().map(|chain| chain.iter().map(|certificate| place(certificate)).collect()).collect();
            serde_json::to_string(&chains).unwrap()
        }
        Err(why) => why.to_string(),
    }
}
