"""Review what the last commit and the working tree changed, inside of an event loop that runs
already.
"""

import asyncio

import vibe_gate


async def main() -> int:
    review = await vibe_gate.review("HEAD~1", judge=False)
    for finding in review.findings:
        print(f"{finding.path}:{finding.line}: {finding.level}: {finding.message}")
    print(review.headline, *review.notes, sep="\n")
    return review.exit_code


raise SystemExit(asyncio.run(main()))
