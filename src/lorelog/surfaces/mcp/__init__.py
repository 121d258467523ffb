"""How do agents ask? Memory as tools, resources and a prompt of the Model Context Protocol."""
