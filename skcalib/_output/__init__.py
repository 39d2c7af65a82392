"""What pictures and pages share: colours and texts."""
