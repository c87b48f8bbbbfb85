#!/usr/bin/env bash
# Makes a fresh machine ready: uv, a C compiler, Java, Node.js and Chromium where they are missing,
# then .venv from uv.lock with the kernels compiled. As root it installs; otherwise it says, in one
# line, what to install. Runs as often as you like; a second run takes a second.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

missing=()
need() { # command, Debian package
    command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}

has_headers() {
    python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))'
}

need cc "gcc libc6-dev"
need make make
need git git
has_headers || missing+=("python3-dev")
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=("python3-venv python3-pip")
if [ "${1:-all}" = all ]; then
    java_ok() { command -v java >/dev/null 2>&1 && java -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])'; }
    java_ok || missing+=("openjdk-17-jre-headless")
    need node nodejs
    need npm npm
    command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 ||
        command -v google-chrome >/dev/null 2>&1 || missing+=("chromium")
fi

if [ "${#missing[@]}" -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing ${missing[*]}"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq >/dev/null
        # shellcheck disable=SC2086 (one entry may be several packages)
        apt-get install -y -qq --no-install-recommends ${missing[*]} >/dev/null
    else
        say "please install: ${missing[*]} (Debian: apt-get install ${missing[*]})"
        exit 1
    fi
fi

if ! command -v uv >/dev/null 2>&1; then
    say "installing uv"
    python3 -m pip install --quiet uv 2>/dev/null ||
        python3 -m pip install --quiet --user uv 2>/dev/null ||
        python3 -m pip install --quiet --break-system-packages uv ||
        { say "please install uv (pip install uv)"; exit 1; }
    export PATH="$HOME/.local/bin:$PATH"
    command -v uv >/dev/null 2>&1 || { say "please put uv on the PATH"; exit 1; }
fi

# Nothing to do if the environment was made from these very files.
stamp=.venv/.made-from
wanted=$(cat uv.lock pyproject.toml setup.py | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
    say "making .venv (a few minutes the first time)"
    keep=$(mktemp)
    cp uv.lock "$keep"
    trap 'cp "$keep" uv.lock; rm -f "$keep"' EXIT
    # uv completes the lock from the index of this machine; the committed one names no addresses.
    # Compiled at once: a server has to start fast even where Python may not write its caches.
    uv sync --quiet --all-groups --compile-bytecode --python "$(command -v python3.11 || echo '>=3.11')"
    printf '%s\n' "$wanted" >"$stamp"
fi

if [ "${1:-all}" = all ] && [ -f tests/interop/package-lock.json ]; then
    if ! cmp -s tests/interop/package-lock.json tests/interop/node_modules/.made-from; then
        say "installing nats.js for the interoperability tests"
        (cd tests/interop && npm ci --silent --no-audit --no-fund >/dev/null)
        cp tests/interop/package-lock.json tests/interop/node_modules/.made-from
    fi
fi
