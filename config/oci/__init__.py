"""Oracle Cloud Infrastructure: what a stack file may ask for, and the rules that it is judged by."""
