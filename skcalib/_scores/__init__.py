"""Scores and events of one class against the others: margins, bins, ranks, proper scores."""
