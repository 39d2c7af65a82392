"""Log loss of maps, sigmoids, splines and mixtures, and its minimum by scipy.optimize."""

from __future__ import annotations
