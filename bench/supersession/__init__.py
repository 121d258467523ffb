"""How precisely now/was pairs are recognised: made-up journals, and documentation histories."""
