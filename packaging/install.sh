#!/bin/sh
# Installs ferrokube for one user: no root needed. What it downloads is checked against SHA256SUMS, and that against its signature.
#
#   FERROKUBE_URL     where the release is               (default: where this script was released)
#   FERROKUBE_PREFIX  where to install                   (default: ~/.local: bin, share/man and completions)
#   FERROKUBE_KEY     the minisign public key to expect  (default: the one in this script; none: only sums are checked)
set -eu

version="{version}"
url="${FERROKUBE_URL:-{url}}"
prefix="${FERROKUBE_PREFIX:-$HOME/.local}"
key="${FERROKUBE_KEY-{key}}"

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

platform() {
    case "$(uname -m)" in
        x86_64 | amd64) processor=x86_64 ;;
        aarch64 | arm64) processor=aarch64 ;;
        *) fail "there is no program for the processor $(uname -m)" ;;
    esac
    case "$(uname -s)" in
        Linux) echo "$processor-unknown-linux-musl" ;;
        Darwin) echo "$processor-apple-darwin" ;;
        *) fail "there is no program for $(uname -s)" ;;
    esac
}

download() {
    if has curl; then
        curl --fail --silent --show-error --location --output "$2" "$1" || fail "cannot download $1"
    elif has wget; then
        wget -q -O "$2" "$1" || fail "cannot download $1"
    else
        fail "neither curl nor wget is here"
    fi
}

sum_of() {
    if has sha256sum; then
        sha256sum "$1"
    elif has shasum; then
        shasum -a 256 "$1"
    else
        fail "neither sha256sum nor shasum is here"
    fi | cut -d ' ' -f 1
}

# The signature of SHA256SUMS, by minisign, or else by OpenSSL 3, which knows both algorithms that minisign uses.
check_signature() {
    if has minisign; then
        minisign -V -q -P "$key" -m SHA256SUMS || fail "the signature of SHA256SUMS is not by the key $key"
        return
    fi
    case "$(openssl version 2>/dev/null)" in
        "OpenSSL 3"* | "OpenSSL 4"*) ;;
        *) fail "neither minisign nor OpenSSL 3 is here to check the signature; FERROKUBE_KEY= goes without" ;;
    esac
    decode() { openssl base64 -d -A; }
    sed -n 2p SHA256SUMS.minisig | decode >signature
    printf '%s' "$key" | decode >public
    # Both begin with two bytes for the algorithm and eight that name the key. DER wants a header before the key itself.
    [ "$(head -c 10 signature | tail -c 8 | od -An -tx1)" = "$(head -c 10 public | tail -c 8 | od -An -tx1)" ] ||
        fail "the signature of SHA256SUMS is not by the key $key"
    { printf '\060\052\060\005\006\003\053\145\160\003\041\000'; tail -c 32 public; } >public.der
    tail -c 64 signature >signature.raw
    openssl dgst -blake2b512 -binary SHA256SUMS >hashed
    openssl pkeyutl -verify -rawin -pubin -keyform DER -inkey public.der -sigfile signature.raw -in hashed >/dev/null 2>&1 ||
        fail "the signature of SHA256SUMS is not by the key $key"
}

main() {
    [ -n "$url" ] || fail "FERROKUBE_URL must say where the release is"
    archive="ferrokube-$version-$(platform)"
    work="$(mktemp -d)"
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    download "$url/SHA256SUMS" SHA256SUMS
    if [ -n "$key" ]; then
        download "$url/SHA256SUMS.minisig" SHA256SUMS.minisig
        check_signature
    else
        echo "install.sh: no key is given, so that only sums are checked" >&2
    fi
    wanted="$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\.tar\.gz\$/\1/p" SHA256SUMS)"
    [ -n "$wanted" ] || fail "the release has no $archive.tar.gz"
    download "$url/$archive.tar.gz" archive.tar.gz
    [ "$(sum_of archive.tar.gz)" = "$wanted" ] || fail "$archive.tar.gz is not what SHA256SUMS says"
    tar -xzf archive.tar.gz
    share="$prefix/share"
    mkdir -p "$prefix/bin" "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" \
        "$share/fish/vendor_completions.d"
    cp "$archive"/man/man1/* "$share/man/man1/"
    cp "$archive/completions/ferrokube.bash" "$share/bash-completion/completions/ferrokube"
    cp "$archive/completions/_ferrokube" "$share/zsh/site-functions/"
    cp "$archive/completions/ferrokube.fish" "$share/fish/vendor_completions.d/"
    # A program that runs is replaced, not written to.
    cp "$archive/ferrokube" "$prefix/bin/.ferrokube.new"
    mv -f "$prefix/bin/.ferrokube.new" "$prefix/bin/ferrokube"
    "$prefix/bin/ferrokube" version
    echo "installed as $prefix/bin/ferrokube"
    case ":$PATH:" in
        *":$prefix/bin:"*) ;;
        *) echo "it is not on PATH yet: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
}

main
