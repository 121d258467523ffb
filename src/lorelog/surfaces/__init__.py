"""Who asks? Each surface parses, calls an engine verb and renders; none decides anything."""
