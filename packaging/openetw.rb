# Homebrew formula of openetw @version@: the etw command for Linux.
class Openetw < Formula
  desc "Event Tracing for Windows on Linux: record, decode and control"
  homepage "https://github.com/openetw/openetw"
  version "@version@"
  license any_of: ["MIT", "Apache-2.0"]
  depends_on :linux

  on_intel do
    url "https://github.com/openetw/openetw/releases/download/v@version@/openetw-@version@-x86_64-linux-musl.tar.gz"
    sha256 "@sha256:openetw-@version@-x86_64-linux-musl.tar.gz@"
  end

  on_arm do
    url "https://github.com/openetw/openetw/releases/download/v@version@/openetw-@version@-aarch64-linux-musl.tar.gz"
    sha256 "@sha256:openetw-@version@-aarch64-linux-musl.tar.gz@"
  end

  def install
    bin.install "bin/etw"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/etw"
    zsh_completion.install "share/zsh/site-functions/_etw"
    fish_completion.install "share/fish/vendor_completions.d/etw.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/etw --version")
  end
end
