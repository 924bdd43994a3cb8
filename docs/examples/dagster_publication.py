"""A publication as an asset of Dagster. Not run by our tests."""

import subprocess

import dagster

@dagster.asset(retry_policy=dagster.RetryPolicy(max_retries=2))
def published_newsletter() -> dagster.MaterializeResult:
    done = subprocess.run(
        ["connector-sync", "publish", "lake", "--json"], cwd="/srv/sync", capture_output=True, text=True
    )
    if done.returncode != 0:
        raise dagster.Failure(done.stderr)
    return dagster.MaterializeResult(metadata={"publication": done.stdout})
