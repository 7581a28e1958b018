"""From a net dict to layers with templates, in the order in which they are computed."""
