#!/usr/bin/env python3
"""Writes the tables of docs/megatron.md, from "## Done" to the end.

usage: tools/megatron_page.py TESSERA
"""

import subprocess
import sys
from pathlib import Path

page = Path(__file__).parent.parent / "docs" / "megatron.md"
tables = subprocess.run([sys.argv[1], "train", "--megatron-flags"], capture_output=True, check=True)
head = page.read_text().split("## Done\n")[0]
page.write_text(head + tables.stdout.decode())
