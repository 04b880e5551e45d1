"""Oracle Cloud Infrastructure: the keys that a stack file may set, and the rules that check them."""
