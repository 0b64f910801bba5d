//! How the command is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // There Rust links with lld, which can make one of functions that are the same: less code is less resident memory.
    if std::env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu") {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}
