"""A GitHub of our own on loopback, held to GitHub's own description of its API."""
