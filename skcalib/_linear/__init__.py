"""Log loss of linear maps of logits, and its minimum."""
