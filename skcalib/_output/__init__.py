"""What pictures and pages share: colours, texts that fit, HTML elements, files replaced whole."""
