"""Receipts: statements about reviewed trees, issued, found, verified and reused."""
