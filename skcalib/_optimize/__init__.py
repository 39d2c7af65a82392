"""Objectives that calibrators minimize, and their minima by scipy.optimize."""

from __future__ import annotations
