"""The command line: files of logits are read, calibrators compared, saved and applied."""

from __future__ import annotations
