"""Calibrators and classifiers inside other estimators: checks, fits and outputs."""
