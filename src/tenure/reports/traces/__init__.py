"""What is in a trace of jobs: figures, pictures and a page."""
