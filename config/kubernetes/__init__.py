"""The configuration of an existing Kubernetes cluster: which pods are needed, and how its control plane is reached."""
