//! The formats of all packages, made of a script that stands for the program. `--check` tries the real ones.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use minisign::{PublicKeyBox, SignatureBox};
use serde_json::Value;

use super::check::{gunzip, install, unit::Unit, untar};
use super::contents::{Contents, Pages};
use super::platform::{PLATFORMS, Platform};
use super::{Release, VERSION, deb, formula, oci, packaging, rpm, sbom, seal};

const PROGRAM: &[u8] = b"#!/bin/sh\necho ferrokube $*\n";
/// 2026-11-19T02:00:00Z
const SECONDS: u64 = 1_795_053_600;

fn pages() -> Pages {
    Pages {
        manual: vec![("ferrokube.1".into(), b".TH ferrokube 1\n".to_vec())],
        completions: vec![
            ("ferrokube.bash", b"complete\n".to_vec()),
            ("_ferrokube", b"#compdef ferrokube\n".to_vec()),
            ("ferrokube.fish", b"complete -c ferrokube\n".to_vec()),
            ("_ferrokube.ps1", b"Register\n".to_vec()),
        ],
    }
}

/// A release in this folder with programs for these platforms, packed but not sealed.
fn release(folder: &Path, platforms: &[&Platform]) -> Release {
    let url = "https://example.test/v1".to_string();
    let release = Release {
        folder: folder.to_path_buf(),
        commit: "c".repeat(40),
        seconds: SECONDS,
        url,
        ..Release::of_nothing()
    };
    for platform in platforms {
        let program = release.program(platform);
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, PROGRAM).unwrap();
        let contents = Contents { program: PROGRAM.to_vec(), pages: &pages() };
        contents.write_archive(&release, platform).unwrap();
    }
    release
}

/// Names and contents of an `ar` archive's members.
fn members(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut rest = bytes.strip_prefix(b"!<arch>\n").unwrap();
    let mut found = Vec::new();
    while rest.len() >= 60 {
        let (header, after) = rest.split_at(60);
        let header = std::str::from_utf8(header).unwrap();
        assert!(header.ends_with("`\n"), "{header:?}");
        let size: usize = header[48..58].trim().parse().unwrap();
        found.push((header[..16].trim().to_string(), after[..size].to_vec()));
        rest = &after[size + size % 2..];
    }
    assert!(rest.is_empty());
    found
}

#[test]
fn debian_packages_have_what_dpkg_wants() {
    let contents = Contents { program: PROGRAM.to_vec(), pages: &pages() };
    let package = deb::package(VERSION, SECONDS, "amd64", &contents).unwrap();
    assert_eq!(package, deb::package(VERSION, SECONDS, "amd64", &contents).unwrap(), "the same input, the same bytes");
    let members = members(&package);
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
    assert_eq!(members[0].1, b"2.0\n");
    let control = untar(&gunzip(&members[1].1).unwrap()).unwrap();
    let text = |name: &str| {
        let found = control.iter().find(|(path, _)| path.trim_start_matches("./") == name);
        String::from_utf8(found.unwrap_or_else(|| panic!("no {name}")).1.clone()).unwrap()
    };
    let about = text("control");
    for line in ["Package: ferrokube", &format!("Version: {VERSION}"), "Architecture: amd64", "Installed-Size: "] {
        assert!(about.contains(line), "{line:?} is not in {about}");
    }
    assert!(!about.contains('{') && about.ends_with('\n'), "{about}");
    assert_eq!(text("conffiles"), "/etc/ferrokube/ferrokube.env\n");
    for script in ["postinst", "prerm", "postrm"] {
        let text = text(script);
        assert!(text.starts_with("#!/bin/sh\n"), "{script}");
        assert!(!text.contains("rm -r /var") || text.contains("echo"), "{script} only says how data is deleted");
    }
    let data = gunzip(&members[2].1).unwrap();
    let mut archive = tar::Archive::new(data.as_slice());
    let entries = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        assert_eq!((entry.header().uid().unwrap(), entry.header().mtime().unwrap()), (0, SECONDS));
        (entry.path().unwrap().display().to_string(), entry.header().mode().unwrap())
    });
    let entries: Vec<(String, u32)> = entries.collect();
    for (path, mode) in [
        ("usr/bin/", 0o755),
        ("usr/bin/ferrokube", 0o755),
        ("usr/lib/systemd/system/ferrokube.service", 0o644),
        ("etc/ferrokube/ferrokube.env", 0o644),
        ("usr/share/man/man1/ferrokube.1.gz", 0o644),
        ("usr/share/zsh/vendor-completions/_ferrokube", 0o644),
    ] {
        let found = entries.iter().find(|(known, _)| known.trim_start_matches("./") == path);
        assert_eq!(found.map(|(_, mode)| *mode), Some(mode), "{path} in {entries:?}");
    }
}

#[test]
fn red_hat_packages_can_be_read() {
    let contents = Contents { program: PROGRAM.to_vec(), pages: &pages() };
    let package = rpm::package(VERSION, SECONDS, "x86_64", &contents).unwrap();
    assert_eq!(package, rpm::package(VERSION, SECONDS, "x86_64", &contents).unwrap(), "the same input, the same bytes");
    let read = ::rpm::Package::parse(&mut Cursor::new(&package)).unwrap();
    read.verify_digests().unwrap();
    assert_eq!(read.metadata.get_name().unwrap(), "ferrokube");
    assert_eq!(read.metadata.get_version().unwrap(), VERSION);
    let entries = read.metadata.get_file_entries().unwrap();
    let settings = entries.iter().find(|entry| entry.path().ends_with("ferrokube.env")).unwrap();
    assert!(settings.flags().contains(::rpm::FileFlags::CONFIG | ::rpm::FileFlags::NOREPLACE));
    assert!(entries.iter().any(|entry| entry.path() == Path::new("/usr/bin/ferrokube")));
    assert!(read.metadata.get_post_install_script().is_ok());
}

#[test]
fn images_unpack_to_what_they_describe() {
    let folder = tempfile::tempdir().unwrap();
    let linux: Vec<&Platform> = PLATFORMS.iter().filter(|platform| platform.os == "linux").collect();
    let release = release(folder.path(), &linux);
    oci::write(&release).unwrap();
    let path = folder.path().join(oci::name());
    let first = fs::read(&path).unwrap();
    oci::write(&release).unwrap();
    assert_eq!(first, fs::read(&path).unwrap(), "the same input, the same bytes");
    for platform in linux {
        let root = folder.path().join(platform.architecture);
        let image = oci::unpack(&path, platform.architecture, &root).unwrap();
        assert_eq!(image["architecture"], platform.architecture);
        assert_eq!(image["config"]["User"], "65532:65532");
        assert_eq!(fs::read(root.join("usr/bin/ferrokube")).unwrap(), PROGRAM);
        let link = fs::read_link(root.join("usr/local/bin/kube-apiserver")).unwrap();
        assert_eq!(link, Path::new("/usr/bin/ferrokube"));
    }
    let none = oci::unpack(&path, "s390x", &folder.path().join("none")).unwrap_err();
    assert!(none.contains("s390x"), "{none}");
    let mut broken = first.clone();
    let at = first.windows(7).position(|window| window == b"created").unwrap();
    broken[at] = b'k';
    fs::write(&path, broken).unwrap();
    assert!(oci::unpack(&path, "amd64", &folder.path().join("broken")).is_err(), "digests are compared");
}

#[test]
fn sums_are_signed_and_name_every_file() {
    let folder = tempfile::tempdir().unwrap();
    let release = release(&folder.path().join("release"), &PLATFORMS.iter().collect::<Vec<_>>());
    let key = folder.path().join("key");
    seal::new_key(&key).unwrap();
    assert!(seal::new_key(&key).is_err(), "a key is not overwritten");
    seal::run(&release, Some(&key)).unwrap();
    let sums = fs::read(release.folder.join(seal::SUMS)).unwrap();
    let public = fs::read_to_string(folder.path().join("key.pub")).unwrap();
    let public = PublicKeyBox::from_string(&public).unwrap().into_public_key().unwrap();
    let signature = SignatureBox::from_file(release.folder.join(seal::SIGNATURE)).unwrap();
    minisign::verify(&public, &signature, Cursor::new(&sums), true, false, false).unwrap();
    let mut other = sums.clone();
    other[0] ^= 1;
    assert!(minisign::verify(&public, &signature, Cursor::new(&other), true, false, false).is_err());
    let sums = String::from_utf8(sums).unwrap();
    for name in release.files().unwrap().iter().filter(|name| !name.starts_with(seal::SUMS)) {
        assert!(sums.lines().any(|line| line.ends_with(&format!("  {name}"))), "{name}");
    }
    let provenance = fs::read(release.folder.join(super::provenance::NAME)).unwrap();
    let provenance: Value = serde_json::from_slice(&provenance).unwrap();
    let archive = format!("ferrokube-{VERSION}-{}.tar.gz", PLATFORMS[0].triple);
    let subjects = provenance["subject"].as_array().unwrap();
    let subject = subjects.iter().find(|subject| subject["name"] == archive.as_str()).unwrap();
    let line = format!("{}  {archive}", subject["digest"]["sha256"].as_str().unwrap());
    assert!(sums.lines().any(|known| known == line), "{line}");
    let formula = fs::read_to_string(release.folder.join("ferrokube.rb")).unwrap();
    assert_eq!(formula.matches("sha256 \"").count(), PLATFORMS.len(), "{formula}");
}

/// The real script, in an empty home: it installs a release as it was made, and nothing of a changed one.
#[cfg(target_os = "linux")]
#[test]
fn the_installer_takes_only_what_was_signed() {
    let folder = tempfile::tempdir().unwrap();
    let here = PLATFORMS.iter().find(|platform| platform.runs_here());
    let Some(here) = here else { return eprintln!("left out: no program is made for this machine") };
    let release = release(&folder.path().join("release"), &[here]);
    let key = folder.path().join("key");
    seal::new_key(&key).unwrap();
    seal::run(&release, Some(&key)).unwrap();
    let home = folder.path().join("home");
    fs::create_dir_all(&home).unwrap();
    let url = super::check::files::serve(&release.folder).unwrap();
    let said =
        crate::conformance::succeed("install.sh", &mut install::installer(&release.folder, &home, &url)).unwrap();
    assert!(said.contains("ferrokube version\n"), "{said}");
    assert_eq!(fs::read(home.join(".local/bin/ferrokube")).unwrap(), PROGRAM);
    assert!(home.join(".local/share/man/man1/ferrokube.1").is_file());
    assert_eq!(install::refusals(&release, here, folder.path()).unwrap(), 3);
}

#[test]
fn formulas_have_only_archives_that_are_there() {
    let text = formula::text("https://example.test", &|name| name.contains("darwin").then(|| "5".repeat(64)));
    assert_eq!(text.matches("on_macos").count(), 2, "{text}");
    assert!(!text.contains("on_linux") && text.contains(VERSION), "{text}");
}

#[test]
fn linked_crates_are_read_from_cargo() {
    let tree = "ferrokube-apiserver v0.1.0 (/x)|Apache-2.0\nring v0.17.1|Apache-2.0 AND ISC\nring v0.17.1|Apache-2.0 AND ISC\n\nold v1.0.0|MIT/Apache-2.0\n";
    let linked: Vec<_> = sbom::linked(tree).into_iter().map(|linked| (linked.name, linked.license)).collect();
    let want = [("ferrokube-apiserver", "Apache-2.0"), ("old", "MIT OR Apache-2.0"), ("ring", "Apache-2.0 AND ISC")];
    assert_eq!(linked, want.map(|(name, license)| (name.to_string(), license.to_string())));
    let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"s\"\nchecksum = \"ff\"\n\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\n";
    let checksums = sbom::checksums(lock);
    assert_eq!(checksums.into_iter().collect::<Vec<_>>(), [(("a".into(), "1.0.0".into()), "ff".to_string())]);
}

#[test]
fn the_unit_starts_the_program_with_its_settings() {
    let unit = Unit::read(&packaging("ferrokube.service").unwrap());
    let environment = [("FERROKUBE_FLAGS".to_string(), "--secure-port=1 -v=2".to_string())];
    let command = unit.command(&environment.into()).unwrap();
    let want = ["/usr/bin/ferrokube", "serve", "--data-dir=/var/lib/ferrokube", "--secure-port=1", "-v=2"];
    assert_eq!(command, want);
    for (name, want) in [("Type", "notify"), ("User", "ferrokube"), ("ProtectSystem", "strict"), ("UMask", "0077")] {
        assert_eq!(unit.get(name).unwrap(), want);
    }
    assert!(unit.get("WantedBy").is_err(), "which is of another section");
    let settings = packaging("ferrokube.env").unwrap();
    assert!(settings.lines().any(|line| line == "FERROKUBE_FLAGS=\"\""), "{settings}");
}
