"""Creates what is sent to the head node: the packed runner and its requests."""
