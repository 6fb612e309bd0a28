"""`vibe-gate bundles`: stored runs, listed, shown, verified, repaired, kept, cleaned, exported and imported."""
