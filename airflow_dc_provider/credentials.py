"""Credentials of the state's filesystem: from an Airflow connection to the job, in a file that the job removes at once.

No process has them in its arguments, nor in its environment unless they were there before: a connection
that is itself an environment variable of Airflow's worker is kept from spark-submit, but stays in the worker's own.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook
from airflow.sdk.log import mask_secret

from airflow_dc_provider.exceptions import DcGateError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection

_HOW_TO_WRITE_IT = (
    "Put the options that fsspec takes for the state's filesystem into the connection's extra, for instance "
    """{"storage_options": {"account_name": "lake", "account_key": "..."}}. A connection of type 'aws' needs no """
    "storage_options."
)
# What gives an AWS connection an identity other than that of its keys.
_NOT_FOLLOWED = ("role_arn", "profile_name", "session_kwargs")
_NO_SECRETS = ("endpoint_url", "region_name")


@dataclass(frozen=True, slots=True)
class StateAccess:
    """The options by which the state's filesystem is opened. Their repr shows nothing."""

    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def hand_over(self, folder: Path) -> Path | None:
        """Write them for the job: a file that only this user may read, in a folder that only this user may enter."""
        if not self.options:
            return None
        path = folder / "state-options.json"
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(json.dumps(self.options), encoding="utf-8")
        return path


def state_access(conn_id: str | None) -> StateAccess:
    """What a connection says about the state's filesystem; without a connection, whatever the machine itself has."""
    if conn_id is None:
        return StateAccess()
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise DcGateError(
            f"There is no Airflow connection '{conn_id}', so the state's filesystem cannot be opened.",
            hint=f"For S3: airflow connections add {shlex.quote(conn_id)} --conn-type aws --conn-login KEY_ID "
            f"--conn-password SECRET. {_HOW_TO_WRITE_IT}",
        ) from error
    access = StateAccess(_options(conn_id, connection))
    for secret in _secrets(access.options):
        mask_secret(secret)
        mask_secret(json.dumps(secret)[1:-1])
    return access


def hidden_variables(conn_id: str | None) -> dict[str, str]:
    """What spark-submit gets in place of a connection that is an environment variable of this process."""
    name = f"AIRFLOW_CONN_{(conn_id or '').upper()}"
    return {name: ""} if name in os.environ else {}


def _options(conn_id: str, connection: Connection) -> Mapping[str, Any]:
    extra = connection.extra_dejson
    if "storage_options" in extra:
        options = extra["storage_options"]
        if not isinstance(options, Mapping):
            raise DcGateError(
                f"'storage_options' in the Airflow connection '{conn_id}' is not a JSON object.", hint=_HOW_TO_WRITE_IT
            )
        return options
    if connection.conn_type != "aws":
        raise DcGateError(
            f"The Airflow connection '{conn_id}' of type '{connection.conn_type}' does not say how to open the state's "
            "filesystem.",
            hint=_HOW_TO_WRITE_IT,
        )
    for name in _NOT_FOLLOWED:
        if extra.get(name):
            raise DcGateError(
                f"The Airflow connection '{conn_id}' asks for '{name}', which is not supported for the state.",
                hint=_HOW_TO_WRITE_IT,
            )
    region = extra.get("region_name")
    options = {
        "key": connection.login or extra.get("aws_access_key_id"),
        "secret": connection.password or extra.get("aws_secret_access_key"),
        "token": extra.get("aws_session_token"),
        "endpoint_url": extra.get("endpoint_url"),
        "client_kwargs": {"region_name": region} if region else None,
    }
    return {name: value for name, value in options.items() if value}


def _secrets(value: Any, name: str = "") -> Iterator[str]:
    """Every text in the options: only the filesystem knows which of them are secret."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _secrets(one, str(key))
    elif isinstance(value, list):
        for one in value:
            yield from _secrets(one, name)
    elif isinstance(value, str) and name not in _NO_SECRETS:
        yield value
