"""An existing Kubernetes cluster, in which kubectl creates the stack's objects; nothing else is created."""
