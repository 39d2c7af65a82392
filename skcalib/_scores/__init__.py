"""Scores and events, one class against the others: margins, bins, isotonic fits, kernels."""

from __future__ import annotations
