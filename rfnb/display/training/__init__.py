"""What a training loop is told while it runs, and how it is drawn."""
