"""The configuration of an existing Kubernetes cluster: what pods are needed, and how its control plane is reached."""
