"""The command line: files in, a comparison, pictures and a calibrator out."""
