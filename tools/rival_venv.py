"""The programs that tokenizers are compared with, in a Python environment of their own.

`in_rival_venv(main)` calls main under a Python that has them; the first call makes it, in
build/tokenizer-venv, from PyPI.
"""

import os
import subprocess
import sys
from pathlib import Path

PACKAGES = ["tokenizers==0.23.3", "tiktoken==0.14.0", "sentencepiece==0.2.2"]
# Cuts bytes that are no UTF-8 by tiktoken's patterns; this one has the Unicode that tiktoken has.
PACKAGES += ["regex==2024.11.6"]
VENV = Path(__file__).parent.parent / "build" / "tokenizer-venv"


def has_packages():
    from importlib.metadata import PackageNotFoundError, version

    try:
        return all(version(p.split("==")[0]) == p.split("==")[1] for p in PACKAGES)
    except PackageNotFoundError:
        return False


def in_rival_venv(main):
    if has_packages():
        sys.exit(main())
    python = VENV / "bin" / "python"
    if Path(sys.executable) == python:
        sys.exit(f"{VENV} has other versions than {', '.join(PACKAGES)}: remove it")
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    os.execv(python, [python, *sys.argv])
