"""The keys that a stack file may set: frozen models with their rules beside them, which components also take."""
