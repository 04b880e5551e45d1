"""An existing Kubernetes cluster: its objects by kubectl on the control plane's host, and nothing else."""
