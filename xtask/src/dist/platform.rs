//! The platforms that a release is made for, and what each kind of package calls them.

/// A platform with a program of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Platform {
    pub triple: &'static str,
    /// As container images and Homebrew name it.
    pub os: &'static str,
    pub architecture: &'static str,
    /// As Debian's and Red Hat's packages name it; None where there are none.
    pub deb: Option<&'static str>,
    pub rpm: Option<&'static str>,
}

pub const PLATFORMS: &[Platform] = &[
    Platform {
        triple: "x86_64-unknown-linux-musl",
        os: "linux",
        architecture: "amd64",
        deb: Some("amd64"),
        rpm: Some("x86_64"),
    },
    Platform {
        triple: "aarch64-unknown-linux-musl",
        os: "linux",
        architecture: "arm64",
        deb: Some("arm64"),
        rpm: Some("aarch64"),
    },
    Platform { triple: "aarch64-apple-darwin", os: "darwin", architecture: "arm64", deb: None, rpm: None },
    Platform { triple: "x86_64-apple-darwin", os: "darwin", architecture: "amd64", deb: None, rpm: None },
];

/// What no machine makes, and why.
pub const NOT_BUILT: &[(&str, &str)] =
    &[("Windows", "the server uses Unix signals, sockets and file modes, and is not written for it")];

impl Platform {
    pub fn named(triple: &str) -> Result<&'static Platform, String> {
        let known = || PLATFORMS.iter().map(|platform| platform.triple).collect::<Vec<_>>().join(", ");
        let found = PLATFORMS.iter().find(|platform| platform.triple == triple);
        found.ok_or_else(|| format!("there is no platform {triple}; there are {}", known()))
    }

    /// Whether this machine can run its programs.
    pub fn runs_here(&self) -> bool {
        let os = if self.os == "darwin" { "macos" } else { self.os };
        std::env::consts::OS == os && self.triple.starts_with(std::env::consts::ARCH)
    }
}
