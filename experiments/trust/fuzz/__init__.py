"""Coverage-guided fuzzing of every reader of files; see ``campaign``."""
