"""Calibrators and classifiers inside other estimators: their checks, fits and outputs."""
