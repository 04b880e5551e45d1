"""OCI's own endpoints: federation, and the parts of the Core Services API that an instance principal may call."""
