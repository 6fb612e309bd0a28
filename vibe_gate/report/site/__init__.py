"""All stored runs as a site of pages: `render_index_page(site)`, beside it the page of each run.

site_runs         what the site shows of each run, and the spans of time that its pictures have
pictures          the figures of all runs, each leading to the runs behind it: time_pictures,
                  finding_pictures, judge_pictures, of picture_parts
tests_section     runs of tests: each test by model and repetition, how often it passed, its cost
labels_section    what people said of findings
coverage_section  which commits were reviewed since the first run
index             the page: head, pictures, commits, and the table of the runs
"""

from __future__ import annotations

from vibe_gate.report.site.coverage_section import CommitTime, commits_before
from vibe_gate.report.site.index import render_index_page
from vibe_gate.report.site.site_runs import Site, SiteRun

__all__ = ["CommitTime", "Site", "SiteRun", "commits_before", "render_index_page"]
