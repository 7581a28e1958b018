"""A net as code: its ops are traced by layer, and written as modules of rf or torch. The difference of two nets."""
