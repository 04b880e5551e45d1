"""AWS's own end point of EC2: the operations of the Query API that an instance's role may call."""
