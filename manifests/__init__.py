"""The objects that a stack applies to a Kubernetes cluster, as data; nothing here connects to a cluster."""
