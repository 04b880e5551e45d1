"""What is measured and what it means: plans, transcripts, ceilings, gates, verdicts; plus the runner for a head node.

Pure functions over data. It deliberately knows nothing of Pulumi, of a cloud or of SSH (the runner, which does, is a
program of its own that is packed from here and never imported).
"""
