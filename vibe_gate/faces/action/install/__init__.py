"""How the Action installs vibe-gate on a runner: a lock with hashes, a virtual environment outside
of the checkout.
"""
