"""Scores and events of one class against the others: margins, bins, isotonic fits, kernels."""

from __future__ import annotations
