"""Every check of what users pass, and every message of more than one place."""
