"""What a stack file may say: frozen models with their rules beside them, which are also what components take."""
