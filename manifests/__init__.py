"""What a Kubernetes cluster is asked to hold, as data. Pure: nothing here reaches a cluster."""
