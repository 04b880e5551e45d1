"""Amazon Web Services: what a stack file may ask for, and the rules that it is judged by."""
