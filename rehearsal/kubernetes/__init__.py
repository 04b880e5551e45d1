"""A real Kubernetes cluster on rehearsed hosts: the programs are Kubernetes' own; GPUs, RDMA and the image are stand-ins."""
