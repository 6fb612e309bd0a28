"""The one place that says which version this is."""

VERSION = "0.1.0"
