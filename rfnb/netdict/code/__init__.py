"""A net as code: its ops are traced by layer, and written as rf modules. The difference of two nets."""
