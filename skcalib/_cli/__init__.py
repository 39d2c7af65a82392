"""The command line: read files of logits, and compare, save and apply calibrators."""

from __future__ import annotations
