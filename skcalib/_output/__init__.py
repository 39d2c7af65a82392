"""What pictures and pages share: colours, texts, elements of HTML, files."""
