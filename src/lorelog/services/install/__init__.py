"""Install hooks and plugins into agent hosts and remove them again; each change is planned and shown before it is made."""
