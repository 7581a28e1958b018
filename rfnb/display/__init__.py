"""What rfnb shows: views as text, HTML and JSON, and the kernel side of the panel and the stepper."""
