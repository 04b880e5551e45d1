"""The keys that a stack file may set: frozen models, which components take as arguments, and the rules that check them."""
