"""Every check of what users pass, and every message of more than one place."""

from __future__ import annotations
