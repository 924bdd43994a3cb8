"""Syncs, publishes and builds models every day with Airflow. Not run by our tests."""

from airflow.sdk import DAG
from airflow.providers.standard.operators.bash import BashOperator

with DAG("newsletter", schedule="15 5 * * *", catchup=False):
    sync = BashOperator(task_id="sync", bash_command="connector-sync sync newsletter", cwd="/srv/sync")
    publish = BashOperator(
        task_id="publish",
        bash_command="connector-sync publish lake --require-fresh 24h",
        cwd="/srv/sync",
        # Not fresh enough: later tasks are skipped.
        skip_on_exit_code=3,
        retries=2,
    )
    models = BashOperator(task_id="dbt", bash_command="dbt build --select connector_sync", cwd="/srv/analytics")
    sync >> publish >> models
