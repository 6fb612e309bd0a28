"""One door per outside thing. No adapter imports another."""
