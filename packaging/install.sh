#!/bin/sh
# Installs the etw command @version@ for this user, or below the folder that PREFIX names.
#
# FROM names another place of the release's files: an address, or a folder (file:///…).
set -eu
prefix=${PREFIX:-$HOME/.local}
from=${FROM:-https://github.com/openetw/openetw/releases/download/v@version@}
case $(uname -s)-$(uname -m) in
    Linux-x86_64)
        name=openetw-@version@-x86_64-linux-musl
        sum=@sha256:openetw-@version@-x86_64-linux-musl.tar.gz@
        ;;
    Linux-aarch64 | Linux-arm64)
        name=openetw-@version@-aarch64-linux-musl
        sum=@sha256:openetw-@version@-aarch64-linux-musl.tar.gz@
        ;;
    *)
        echo "install.sh: there is no etw for $(uname -s) on $(uname -m); build it with cargo" >&2
        exit 1
        ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if command -v curl >/dev/null; then
    curl --proto '=https,file' -fsSL "$from/$name.tar.gz" -o "$folder/etw.tar.gz"
else
    wget -q "$from/$name.tar.gz" -O "$folder/etw.tar.gz"
fi
echo "$sum  $folder/etw.tar.gz" | sha256sum -c --quiet - || {
    echo "install.sh: $name.tar.gz is not the file of the release; nothing was installed" >&2
    exit 1
}
mkdir -p "$prefix"
tar -xzf "$folder/etw.tar.gz" -C "$prefix" --strip-components=1 --no-same-owner
echo "etw @version@ is in $prefix/bin"
case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "Add it to the PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
