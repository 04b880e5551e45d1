"""What is kept of a measurement and shown to others: history, certificate, report; all on the operator's side.

It deliberately measures and judges nothing, and knows nothing of Pulumi, of a cloud or of SSH.
"""
