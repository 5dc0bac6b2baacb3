"""The package, and the file to give to Beam as --setup_file."""

import re

from setuptools import find_packages, setup

setup(
    name="dp-frequency-lists",
    version=re.findall('__version__ = "(.*)"', open("dp_transforms/__init__.py").read())[0],
    description="Differentially private frequency lists and partition selection on Apache Beam",
    long_description=open("README.md", encoding="utf-8").read(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=[
        *find_packages(include=["dp_transforms", "dp_transforms.*"]),
        # Not under their own names, which a user's packages may have too.
        "dp_transforms.pipelines",
        "dp_transforms.runner_configs",
    ],
    package_dir={
        "dp_transforms.pipelines": "pipelines",
        "dp_transforms.runner_configs": "runner_configs",
    },
    package_data={
        "dp_transforms": ["**/__init__.pyi", "beam_yaml_providers.yaml", "py.typed"],
        "dp_transforms.runner_configs": ["*/*.yaml", "*/README.md"],
        "dp_transforms.pipelines": ["py.typed"],
        "dp_transforms.sample_data": ["*.csv", "README.md"],
    },
    entry_points={"console_scripts": ["dp-frequency-lists = dp_transforms.__main__:main"]},
    install_requires=[
        "apache-beam>=2.65,<3",
        "dp-accounting>=0.6,<0.7",
        "gmpy2>=2.2",
        "numpy>=1.24",
        # Beam says which later ones go with it.
        "pyarrow>=16",
        "cryptography>=39",
        "scipy>=1.9",
    ],
    extras_require={
        # Beam builds a source distribution from this file for remote workers, with these two.
        "gcp": ["apache-beam[gcp]>=2.65,<3", "build", "setuptools>=68"],
        "yaml": ["apache-beam[yaml]>=2.65,<3"],
        # DuckDB's wheel has its own ADBC driver.
        "database": ["adbc-driver-manager>=1.0", "adbc-driver-postgresql>=1.0", "duckdb>=1.1"],
        "ledger": ["psycopg[binary]>=3.1"],
        "report": ["matplotlib"],
        "completion": ["shtab>=1.7"],
        "docs": ["mkdocs-material>=9.5,<10", "mkdocstrings[python]>=0.26"],
        "test": [
            "adbc-driver-manager>=1.0",
            "adbc-driver-postgresql>=1.0",
            "build",
            "duckdb>=1.1",
            "hypothesis",
            "igraph",
            "ipykernel",
            "matplotlib",
            "mypy",
            "nbclient",
            "networkx",
            "openpyxl",
            "pandas<2.4",
            "polars>=1",
            "pyiceberg[pyarrow,sql-sqlite]>=0.7",
            "psycopg[binary]>=3.1",
            "pytest",
            "pytest-cov",
            "pytest-timeout",
            "pytest-xdist",
            "ruff",
            "setuptools>=68",
            "shtab>=1.7",
        ],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)),
        "Topic :: Scientific/Engineering :: Information Analysis",
        "Topic :: Security",
        "Typing :: Typed",
    ],
)
