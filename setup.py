"""Builds the C core; everything else about the package is in pyproject.toml."""

from glob import glob

from setuptools import Extension, setup

setup(
    package_dir={"": "src"},
    ext_modules=[
        Extension(
            "segue._core",
            sources=sorted(glob("csrc/*.c")),
            depends=sorted(glob("csrc/*.h")),
            extra_compile_args=[
                "-O2",
                "-std=c11",
                "-Wall",
                "-Wextra",
                "-Wno-unused-parameter",  # callbacks of the C API have fixed signatures
                "-fvisibility=hidden",
            ],
        )
    ],
)
