"""The configuration of an existing Kubernetes cluster: which pods are needed, and where kubectl runs."""
