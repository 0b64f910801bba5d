//! A formula for Homebrew that installs the archives of this release.

use super::platform::PLATFORMS;
use super::{Release, VERSION};

/// Writes `ferrokube.rb`, if it is known where the archives will be. `sum` answers with the sum of a file that is there.
pub fn write(release: &Release, sum: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    if release.url.is_empty() {
        return Ok(());
    }
    release.write("ferrokube.rb", text(&release.url, sum).as_bytes()).map(drop)
}

pub fn text(url: &str, sum: &dyn Fn(&str) -> Option<String>) -> String {
    let mut blocks = String::new();
    for platform in PLATFORMS {
        let name = format!("ferrokube-{VERSION}-{}.tar.gz", platform.triple);
        let Some(sum) = sum(&name) else { continue };
        let os = if platform.os == "darwin" { "macos" } else { "linux" };
        let processor = if platform.architecture == "arm64" { "arm" } else { "intel" };
        blocks += &format!(
            "\n  on_{os} do\n    on_{processor} do\n      url \"{url}/{name}\"\n      sha256 \"{sum}\"\n    end\n  end\n"
        );
    }
    format!(
        "class Ferrokube < Formula
  desc \"Kubernetes API server in one small binary\"
  homepage \"{url}\"
  version \"{VERSION}\"
  license \"Apache-2.0\"
{blocks}
  def install
    bin.install \"ferrokube\"
    man1.install Dir[\"man/man1/*\"]
    bash_completion.install \"completions/ferrokube.bash\" => \"ferrokube\"
    zsh_completion.install \"completions/_ferrokube\"
    fish_completion.install \"completions/ferrokube.fish\"
  end

  test do
    assert_match version.to_s, shell_output(\"#{{bin}}/ferrokube version\")
  end
end
"
    )
}
