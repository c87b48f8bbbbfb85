"""Compiles the Cython kernels (every .pyx under src/) into the wheel or beside their sources.

`JETSTREAM_KERNEL_DEBUG=1` builds them with assertions and bounds checks, `JETSTREAM_SANITIZE=1`
with ASan and UBSan on top.
"""

import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup

DEBUG = os.environ.get("JETSTREAM_KERNEL_DEBUG") == "1"
# tools/kernels.py builds one kernel at a time, so that a broken one stops only itself.
ONLY = os.environ.get("JETSTREAM_KERNELS", "").split()
SANITIZE = os.environ.get("JETSTREAM_SANITIZE") == "1"


def kernels() -> list[Extension]:
    compile_args = ["-O1", "-g"] if DEBUG else ["-O3", "-fno-plt"]
    link_args: list[str] = []
    if SANITIZE:
        compile_args += ["-fsanitize=address,undefined", "-fno-omit-frame-pointer"]
        link_args += ["-fsanitize=address,undefined"]
    return [
        Extension(
            ".".join(path.relative_to("src").with_suffix("").parts),
            [str(path)],
            extra_compile_args=compile_args,
            extra_link_args=link_args,
            define_macros=[] if DEBUG else [("CYTHON_WITHOUT_ASSERTIONS", "1")],
        )
        for path in sorted(Path("src").rglob("*.pyx"))
        if not ONLY or str(path) in ONLY
    ]


def compiled() -> list[Extension]:
    if shutil.which(os.environ.get("CC", "cc")) is None:
        sys.exit(
            "jetstream: no C compiler found; install one (Debian: apt-get install gcc libc6-dev)"
        )
    from Cython.Build import cythonize

    safe = DEBUG or SANITIZE
    return cythonize(
        kernels(),
        build_dir="build/cython",
        nthreads=0 if ONLY else os.cpu_count() or 0,
        include_path=["src"],
        compiler_directives={
            "language_level": 3,
            "boundscheck": safe,
            "wraparound": False,
            "initializedcheck": safe,
            "cdivision": True,
            "freethreading_compatible": False,
        },
    )


setup(ext_modules=compiled(), options={"build_ext": {"parallel": os.cpu_count() or 1}})
